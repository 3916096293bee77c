#include "router/http/prompt_fields.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace kvrelay::http {
namespace {

constexpr char kPromptForms[] =
    "a string, a list of strings, a list of token ids, or a list of lists of token ids, and not empty";

bool IsTokenId(const Json& value) { return IsInteger(value, 0, UINT32_MAX); }

bool IsTokenIds(const Json& value) {
  return value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), IsTokenId);
}

v1::TokenIds ToTokenIds(const Json& list) {
  v1::TokenIds ids;
  for (const Json& id : list) ids.add_ids(id.get<uint32_t>());
  return ids;
}

// The parts of a message's content, put together.
std::string ReadParts(Fields& fields, const Json& parts, const std::string& path) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string part = absl::StrCat(path, "[", i, "]");
    const bool is_text =
        parts[i].is_object() && parts[i].value("type", Json()) == "text" && parts[i].value("text", Json()).is_string();
    if (!is_text) {
      fields.Fail(BadField(part, "{\"type\": \"text\", \"text\": \"...\"}: the model reads nothing but text"));
      return "";
    }
    text += parts[i]["text"].get<std::string>();
  }
  return text;
}

v1::ChatMessage ReadMessage(Fields& list, const Json& object, const std::string& path) {
  v1::ChatMessage message;
  if (!object.is_object()) {
    list.Fail(BadField(path, "an object"));
    return message;
  }
  Fields fields(object, path + ".");
  std::string role = fields.String("role").value_or("");
  if (role.empty()) fields.Fail("role", "a string that is not empty");
  if (role == "developer") role = "system";
  message.set_role(role);
  const Json* const content = fields.Find("content");
  if (content != nullptr && content->is_string()) {
    message.set_content(content->get<std::string>());
  } else if (content != nullptr && content->is_array()) {
    message.set_content(ReadParts(fields, *content, fields.Path("content")));
  } else {
    fields.Fail("content", "a string or a list of parts");
  }
  for (const char* name : {"tool_calls", "function_call"}) {
    const Json* const calls = fields.Find(name);
    if (calls != nullptr && !calls->empty()) fields.Fail(name, "left out: tools are not supported");
  }
  if (fields.error()) list.Fail(*fields.error());
  return message;
}

}  // namespace

std::vector<v1::GenerateRequest> ReadPrompts(Fields& fields) {
  const Json* const prompt = fields.Find("prompt");
  std::vector<v1::GenerateRequest> requests;
  const auto add = [&](const Json& one) {
    if (one.is_string()) {
      requests.emplace_back().set_text(one.get<std::string>());
    } else if (IsTokenIds(one)) {
      *requests.emplace_back().mutable_token_ids() = ToTokenIds(one);
    } else {
      fields.Fail("prompt", kPromptForms);
    }
  };
  if (prompt == nullptr) {
    fields.Fail("prompt", kPromptForms);
  } else if (prompt->is_array() && !prompt->empty() && !prompt->front().is_number()) {
    const bool strings = prompt->front().is_string();
    for (const Json& one : *prompt) {
      if (one.is_string() == strings) {
        add(one);
      } else {
        fields.Fail("prompt", kPromptForms);
      }
    }
  } else {
    add(*prompt);
  }
  if (fields.error()) requests.clear();
  return requests;
}

v1::Chat ReadMessages(Fields& fields) {
  v1::Chat chat;
  const Json* const messages = fields.Find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    fields.Fail("messages", "a list of messages, and not empty");
    return chat;
  }
  for (size_t i = 0; i < messages->size() && !fields.error(); ++i) {
    *chat.add_messages() = ReadMessage(fields, (*messages)[i], absl::StrCat(fields.Path("messages"), "[", i, "]"));
  }
  return chat;
}

v1::TokenIds ReadTokenIds(Fields& fields, const char* name) {
  const Json* const value = fields.Find(name);
  if (value == nullptr) return {};
  if (value->is_array() && std::all_of(value->begin(), value->end(), IsTokenId)) return ToTokenIds(*value);
  fields.Fail(name, "a list of token ids");
  return {};
}

}  // namespace kvrelay::http
