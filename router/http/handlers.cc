#include "router/http/handlers.h"

#include "router/http/json_fields.h"
#include "router/http/prompt_fields.h"
#include "router/http/unary_call.h"

namespace kvrelay::http {
namespace {

Json ModelJson(const Backend& backend, const v1::GetModelResponse& model) {
  return {{"id", model.name()},
          {"object", "model"},
          {"created", backend.started},
          {"owned_by", "kvrelay"},
          {"max_model_len", model.context_length()}};
}

Result<v1::TokenizeRequest> ParseTokenize(const Json& body, bool& strings) {
  Fields fields(body);
  v1::TokenizeRequest request;
  request.set_model(fields.String("model").value_or(""));
  if (fields.Find("messages") != nullptr) {
    *request.mutable_chat() = ReadMessages(fields);
  } else if (const auto prompt = fields.String("prompt")) {
    request.set_text(*prompt);
  } else {
    fields.Fail("prompt", "a string, or messages must be given");
  }
  strings = fields.Bool("return_token_strs").value_or(false);
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace

void SetError(const ApiError& error, httplib::Response& response) {
  response.status = error.status;
  response.set_content(error.Json(), kJsonType);
  if (error.retry_after_s) response.set_header("Retry-After", std::to_string(*error.retry_after_s));
  if (error.status == 401) response.set_header("WWW-Authenticate", "Bearer");
}

Result<std::string> Detokenize(const Backend& backend, const RequestContext& context,
                               const v1::DetokenizeRequest& request) {
  v1::DetokenizeResponse text;
  const absl::Status status = UnaryCall(backend, &v1::GenerationService::Stub::Detokenize, context, request, &text);
  if (!status.ok()) return FromStatus(status);
  return text.text();
}

void HandleModels(const Backend& backend, const std::string& name, const httplib::Request& request,
                  httplib::Response& response) {
  v1::GetModelResponse model;
  const absl::Status status =
      UnaryCall(backend, &v1::GenerationService::Stub::GetModel, ContextOf(request), v1::GetModelRequest(), &model);
  if (!status.ok()) return SetError(FromStatus(status), response);
  if (!name.empty() && name != model.name()) {
    return SetError(FromStatus(absl::NotFoundError("that model is not served here, '" + model.name() + "' is")),
                    response);
  }
  const Json json = ModelJson(backend, model);
  response.set_content(Dump(name.empty() ? Json{{"object", "list"}, {"data", Json::array({json})}} : json), kJsonType);
}

void HandleTokenize(const Backend& backend, const httplib::Request& request, httplib::Response& response) {
  const Result<Json> body = ParseObject(request.body);
  if (const auto* error = std::get_if<ApiError>(&body)) return SetError(*error, response);
  bool strings = false;
  const Result<v1::TokenizeRequest> parsed = ParseTokenize(std::get<Json>(body), strings);
  if (const auto* error = std::get_if<ApiError>(&parsed)) return SetError(*error, response);
  v1::TokenizeResponse tokens;
  const absl::Status status = UnaryCall(backend, &v1::GenerationService::Stub::Tokenize, ContextOf(request),
                                        std::get<v1::TokenizeRequest>(parsed), &tokens);
  if (!status.ok()) return SetError(FromStatus(status), response);
  Json json = {{"count", tokens.ids_size()}, {"max_model_len", backend.context_length}, {"tokens", tokens.ids()}};
  json["token_strs"] = strings ? Json(tokens.pieces()) : Json();
  response.set_content(Dump(json), kJsonType);
}

void HandleDetokenize(const Backend& backend, const httplib::Request& request, httplib::Response& response) {
  const Result<Json> body = ParseObject(request.body);
  if (const auto* error = std::get_if<ApiError>(&body)) return SetError(*error, response);
  Fields fields(std::get<Json>(body));
  v1::DetokenizeRequest ids;
  ids.set_model(fields.String("model").value_or(""));
  if (fields.Find("tokens") == nullptr) fields.Fail("tokens", "a list of token ids");
  ids.mutable_ids()->Swap(ReadTokenIds(fields, "tokens").mutable_ids());
  if (fields.error()) return SetError(*fields.error(), response);
  const Result<std::string> text = Detokenize(backend, ContextOf(request), ids);
  if (const auto* error = std::get_if<ApiError>(&text)) return SetError(*error, response);
  response.set_content(Dump({{"prompt", std::get<std::string>(text)}}), kJsonType);
}

}  // namespace kvrelay::http
