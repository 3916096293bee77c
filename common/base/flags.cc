#include "common/base/flags.h"

#include <CLI/CLI.hpp>
#include <ostream>
#include <utility>

namespace kvrelay {

Flag Flag::Env(const std::string& variable) {
  option_->envname(variable);
  return *this;
}

Flag Flag::ShowDefault() {
  option_->capture_default_str();
  return *this;
}

Flag Flag::Required() {
  option_->required();
  return *this;
}

Flag Flag::Range(int64_t min, int64_t max) {
  option_->check(CLI::Range(min, max));
  return *this;
}

Flag Flag::List() {
  option_->delimiter(',');
  return *this;
}

Flag Flag::TypeName(const std::string& name) {
  option_->type_name(name);
  return *this;
}

Flags::Flags(const std::string& description, const std::string& program)
    : program_(std::make_unique<CLI::App>(description, program)), app_(program_.get()) {}

Flags::Flags(CLI::App* command) : app_(command) {}

Flags::~Flags() = default;

template <typename T>
Flag Flags::Add(const std::string& names, T& value, const std::string& help) {
  CLI::Option* option = app_->add_option(names, value, help);
  // An argument takes all words that are left; a flag must not swallow what follows its value.
  if (!option->get_positional()) option->allow_extra_args(false);
  return Flag(option);
}
template Flag Flags::Add(const std::string&, std::string&, const std::string&);
template Flag Flags::Add(const std::string&, int&, const std::string&);
template Flag Flags::Add(const std::string&, int64_t&, const std::string&);
template Flag Flags::Add(const std::string&, uint32_t&, const std::string&);
template Flag Flags::Add(const std::string&, uint64_t&, const std::string&);
template Flag Flags::Add(const std::string&, float&, const std::string&);
template Flag Flags::Add(const std::string&, double&, const std::string&);
template Flag Flags::Add(const std::string&, std::optional<std::string>&, const std::string&);
template Flag Flags::Add(const std::string&, std::optional<float>&, const std::string&);
template Flag Flags::Add(const std::string&, std::optional<uint32_t>&, const std::string&);
template Flag Flags::Add(const std::string&, std::optional<uint64_t>&, const std::string&);
template Flag Flags::Add(const std::string&, std::vector<std::string>&, const std::string&);
template Flag Flags::Add(const std::string&, std::vector<uint32_t>&, const std::string&);

Flag Flags::AddSwitch(const std::string& names, bool& value, const std::string& help) {
  return Flag(app_->add_flag(names, value, help));
}

Flag Flags::AddParsed(const std::string& name, std::function<absl::Status(const std::string&)> parse,
                      const std::string& help) {
  const auto check = [name, parse = std::move(parse)](const std::string& text) {
    const absl::Status status = parse(text);
    if (!status.ok()) throw CLI::ValidationError(name, std::string(status.message()));
  };
  return Flag(app_->add_option_function<std::string>(name, check, help));
}

Flags& Flags::AddCommand(const std::string& name, const std::string& help, std::function<void()> chosen) {
  CLI::App* command = app_->add_subcommand(name, help);
  command->parse_complete_callback(std::move(chosen));
  app_->require_subcommand(1);
  commands_.emplace_back(new Flags(command));
  return *commands_.back();
}

void Flags::Footer(const std::string& text) { app_->footer(text); }

void Flags::Version(const std::string& text) { app_->set_version_flag("--version", text); }

std::optional<int> Flags::Parse(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  constexpr int kMistake = 2;
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app_->exit(error, out, err) == 0 ? 0 : kMistake;
  }
  return std::nullopt;
}

}  // namespace kvrelay
