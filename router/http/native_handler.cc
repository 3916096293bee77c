#include "router/http/native_handler.h"

#include <google/protobuf/util/json_util.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "router/http/generations.h"
#include "router/http/json_fields.h"
#include "router/http/unary_call.h"

namespace kvrelay::http {
namespace {

constexpr size_t kJsonCauseBytesMax = 256;

Result<std::string> MessageJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) return FromStatus(absl::InternalError("a message of the service cannot be written as JSON"));
  return json;
}

// One generation and its answer, line by line.
class NativeStream {
 public:
  NativeStream(const Backend& backend, v1::GenerateRequest request, RequestContext context)
      : alive_(std::move(context.alive)), generations_(*backend.stub, context.metadata, {std::move(request)}) {}

  // Waits for the first event: from then on the status is OK.
  std::optional<ApiError> Accept() {
    auto line = NextLine();
    if (const auto* error = std::get_if<ApiError>(&line)) return *error;
    first_ = std::get<std::string>(std::move(line));
    return std::nullopt;
  }

  // All lines, the last one perhaps an error. False if the client has gone.
  bool Stream(httplib::DataSink& sink) {
    std::string line = std::move(first_);
    while (!line.empty()) {
      if (!sink.write(line.data(), line.size())) return false;
      auto next = NextLine();
      if (const auto* error = std::get_if<ApiError>(&next)) {
        const std::string last = error->Json() + '\n';
        return sink.write(last.data(), last.size());
      }
      line = std::get<std::string>(std::move(next));
    }
    return true;
  }

 private:
  // The next event; empty at the good end.
  Result<std::string> NextLine() {
    while (alive_()) {
      const auto event = generations_.Next(kClientLookInterval);
      if (!event) continue;
      if (!event->ended) {
        finished_ |= event->event.has_finished();
        Result<std::string> json = MessageJson(event->event);
        if (auto* line = std::get_if<std::string>(&json)) *line += '\n';
        return json;
      }
      if (!event->status.ok()) return FromStatus(event->status, FieldNames::kGrpc);
      if (finished_) return std::string();
      return FromStatus(absl::InternalError("the service ended a stream without its last message"));
    }
    return FromStatus(absl::CancelledError("the client has gone"));
  }

  const std::function<bool()> alive_;
  Generations generations_;
  std::string first_;
  bool finished_ = false;
};

// The answer of a call that gives one message.
template <typename Call, typename Message, typename Method>
void HandleUnary(const Backend& backend, Method method, const httplib::Request& request, httplib::Response& response) {
  Message message;
  const absl::Status status = UnaryCall(backend, method, ContextOf(request), Call(), &message);
  if (!status.ok()) return SetError(FromStatus(status, FieldNames::kGrpc), response);
  const Result<std::string> json = MessageJson(message);
  if (const auto* error = std::get_if<ApiError>(&json)) return SetError(*error, response);
  response.set_header("Cache-Control", "no-store");
  response.set_content(std::get<std::string>(json), kJsonType);
}

}  // namespace

Result<v1::GenerateRequest> ParseGenerate(const std::string& body, const std::string& request_id) {
  // Protobuf's parser has limits of its own, and names places badly: what is no JSON object never gets there.
  const Result<Json> checked = ParseObject(body);
  if (const auto* error = std::get_if<ApiError>(&checked)) return *error;
  v1::GenerateRequest request;
  const auto status = google::protobuf::util::JsonStringToMessage(body, &request);
  if (!status.ok()) {
    const std::string cause = std::string(status.message()).substr(0, kJsonCauseBytesMax);
    return ApiError{.status = 400, .message = absl::StrCat("the body is no kvrelay.v1.GenerateRequest: ", cause)};
  }
  if (request.request_id().empty()) request.set_request_id(request_id);
  return request;
}

void HandleGenerate(const Backend& backend, const httplib::Request& request, httplib::Response& response) {
  RequestContext context = ContextOf(request);
  Result<v1::GenerateRequest> parsed = ParseGenerate(request.body, context.request_id);
  if (const auto* error = std::get_if<ApiError>(&parsed)) return SetError(*error, response);
  const auto stream =
      std::make_shared<NativeStream>(backend, std::get<v1::GenerateRequest>(std::move(parsed)), std::move(context));
  if (const auto error = stream->Accept()) return SetError(*error, response);
  response.set_header("Cache-Control", "no-store");
  // All in one call, as completions are sent.
  response.set_chunked_content_provider(kJsonLinesType, [stream](size_t, httplib::DataSink& sink) {
    const bool whole = stream->Stream(sink);
    if (whole) sink.done();
    return whole;
  });
}

void HandleModel(const Backend& backend, const httplib::Request& request, httplib::Response& response) {
  HandleUnary<v1::GetModelRequest, v1::GetModelResponse>(backend, &v1::GenerationService::Stub::GetModel, request,
                                                         response);
}

void HandleStatus(const Backend& backend, const httplib::Request& request, httplib::Response& response) {
  HandleUnary<v1::GetStatusRequest, v1::GetStatusResponse>(backend, &v1::GenerationService::Stub::GetStatus, request,
                                                           response);
}

}  // namespace kvrelay::http
