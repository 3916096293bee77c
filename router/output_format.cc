#include "router/output_format.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace kvrelay::router {
namespace {

// What keeps end tokens from being selected where the text is complete, or leaves nothing else to select.
absl::Status CheckCompany(const v1::GenerateRequest& request, const char* field) {
  const char* other = request.ignore_eos()                              ? "ignore_eos"
                      : request.min_tokens() > 0                        ? "min_tokens"
                      : request.sampling().allowed_token_ids_size() > 0 ? "sampling.allowed_token_ids"
                                                                        : nullptr;
  if (other == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, " cannot go with ", other));
}

absl::Status Check(const v1::GenerateRequest& request, const ServedModel& model, const char* field,
                   text::GrammarLanguage language, const std::string& source) {
  KV_RETURN_IF_ERROR(CheckCompany(request, field));
  const absl::Status status = model.CheckGrammar(language, source);
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat(field, " cannot be used: ", status.message()));
}

}  // namespace

absl::Status SetOutputFormat(const v1::GenerateRequest& request, const ServedModel& model,
                             worker::v1::GenerationSpec* spec) {
  using Language = text::GrammarLanguage;
  switch (request.output_format_case()) {
    case v1::GenerateRequest::kJsonSchema:
      spec->set_json_schema(request.json_schema());
      return Check(request, model, "json_schema", Language::kJsonSchema, request.json_schema());
    case v1::GenerateRequest::kRegex:
      spec->set_regex(request.regex());
      return Check(request, model, "regex", Language::kRegex, request.regex());
    case v1::GenerateRequest::kLarkGrammar:
      spec->set_lark_grammar(request.lark_grammar());
      return Check(request, model, "lark_grammar", Language::kLark, request.lark_grammar());
    case v1::GenerateRequest::OUTPUT_FORMAT_NOT_SET:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace kvrelay::router
