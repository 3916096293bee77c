#include "router/http/json_text.h"

#include "router/http/json_fields.h"

namespace kvrelay::http {
namespace {

// Follows the document and writes down what stands at the path.
class TextAt final : public nlohmann::json_sax<Json> {
 public:
  explicit TextAt(const std::vector<std::string>& path) : path_(path) {}
  std::string text;

  bool null() override { return Value("null"); }
  bool boolean(bool value) override { return Value(value ? "true" : "false"); }
  bool number_integer(int64_t value) override { return Value(std::to_string(value)); }
  bool number_unsigned(uint64_t value) override { return Value(std::to_string(value)); }
  bool number_float(double, const std::string& as_written) override { return Value(as_written); }
  bool string(std::string& value) override { return Value(Dump(Json(value))); }
  bool binary(binary_t&) override { return false; }  // not in JSON's text
  bool start_object(size_t) override { return Open('{', /*is_object=*/true); }
  bool end_object() override { return Close('}'); }
  bool start_array(size_t) override { return Open('[', /*is_object=*/false); }
  bool end_array() override { return Close(']'); }
  bool key(std::string& name) override {
    levels_.back().key = name;
    if (inside_ > 0) Separate(), text += Dump(Json(name)) + ":", after_key_ = true;
    return true;
  }
  bool parse_error(size_t, const std::string&, const Json::exception&) override { return false; }

 private:
  struct Level {
    std::string key;
    bool is_object;
  };

  bool AtPath() const {
    if (levels_.size() != path_.size()) return false;
    for (size_t i = 0; i < path_.size(); ++i) {
      if (!levels_[i].is_object || levels_[i].key != path_[i]) return false;
    }
    return true;
  }
  void Separate() {
    if (!std::exchange(after_key_, false) && !text.empty() && text.back() != '{' && text.back() != '[') text += ',';
  }
  // Before a value: whether it is written down.
  bool Begin() {
    if (inside_ == 0) {
      if (!AtPath()) return false;
      text.clear();
      after_key_ = false;
    }
    Separate();
    return true;
  }
  bool Value(const std::string& value) {
    if (Begin()) text += value;
    return true;
  }
  bool Open(char bracket, bool is_object) {
    if (Begin()) text += bracket, ++inside_;
    levels_.push_back({"", is_object});
    return true;
  }
  bool Close(char bracket) {
    levels_.pop_back();
    if (inside_ > 0) text += bracket, --inside_;
    return true;
  }

  const std::vector<std::string>& path_;
  std::vector<Level> levels_;
  int inside_ = 0;          // open brackets of the value
  bool after_key_ = false;  // no comma before the value that follows
};

}  // namespace

std::string JsonTextAt(const std::string& body, const std::vector<std::string>& path) {
  TextAt found(path);
  return Json::sax_parse(body, &found) ? std::move(found.text) : "";
}

}  // namespace kvrelay::http
