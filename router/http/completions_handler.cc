#include "router/http/completions_handler.h"

#include <algorithm>
#include <utility>

#include "common/base/clock.h"
#include "router/http/completion_response.h"
#include "router/http/generations.h"

namespace kvrelay::http {
namespace {

// The generations of one HTTP request, and its answer as far as it goes.
class Completion {
 public:
  Completion(const Backend& backend, CompletionRequest request, RequestContext context,
             std::vector<std::string> prompts)
      : request_(std::move(request)),
        alive_(std::move(context.alive)),
        generations_(*backend.stub, context.metadata, request_.calls),
        response_(request_,
                  {.id = context.request_id,
                   .created = Clock::Real()->UnixNanos() / 1'000'000'000,
                   .model = backend.model_name,
                   .fingerprint = backend.fingerprint},
                  std::move(prompts)),
        finished_(request_.calls.size(), false) {}

  // Goes on until every generation has been accepted: from then on the status is OK.
  std::optional<ApiError> Accept() {
    for (size_t accepted = 0; accepted < request_.calls.size();) {
      const auto event = Next();
      if (const auto* error = std::get_if<ApiError>(&event)) return *error;
      if (std::get<Generations::Event>(event).event.has_started()) ++accepted;
    }
    return std::nullopt;
  }

  // The whole answer.
  Result<std::string> Whole() {
    while (!generations_.all_ended()) {
      const auto event = Next();
      if (const auto* error = std::get_if<ApiError>(&event)) return *error;
    }
    return response_.Whole();
  }

  // The answer piece by piece, or as much of it as there is and an error. False if the client has gone.
  bool Stream(httplib::DataSink& sink) {
    const auto write = [&](const std::string& events) {
      return events.empty() || sink.write(events.data(), events.size());
    };
    if (!write(response_.Begin())) return false;
    for (size_t i = 0; i < request_.calls.size(); ++i) {  // what came while others were not accepted yet
      if (!write(response_.Next(i))) return false;
    }
    while (!generations_.all_ended()) {
      const auto event = Next();
      if (const auto* error = std::get_if<ApiError>(&event)) return write(ErrorEvent(*error));
      const auto& happened = std::get<Generations::Event>(event);
      if (!happened.ended && !write(response_.Next(happened.index))) return false;
    }
    return write(response_.End());
  }

 private:
  // The next event, which the answer has taken in; an error if a generation failed or the client has gone.
  Result<Generations::Event> Next() {
    while (alive_()) {
      auto event = generations_.Next(kClientLookInterval);
      if (!event) continue;
      if (!event->ended) {
        response_.Add(event->index, event->event);
        if (event->event.has_finished()) finished_[event->index] = true;
      } else if (!event->status.ok()) {
        return FromStatus(event->status);
      } else if (!finished_[event->index]) {
        return FromStatus(absl::InternalError("the service ended a stream without its last message"));
      }
      return *std::move(event);
    }
    return FromStatus(absl::CancelledError("the client has gone"));
  }

  const CompletionRequest request_;
  const std::function<bool()> alive_;
  Generations generations_;
  CompletionResponse response_;
  std::vector<bool> finished_;
};

// The texts of all prompts, for an echo.
Result<std::vector<std::string>> PromptTexts(const Backend& backend, const RequestContext& context,
                                             const CompletionRequest& request) {
  std::vector<std::string> texts;
  for (size_t i = 0; request.echo && i < request.calls.size(); i += static_cast<size_t>(request.choices_per_prompt)) {
    const v1::GenerateRequest& call = request.calls[i];
    if (call.has_text()) {
      texts.push_back(call.text());
      continue;
    }
    v1::DetokenizeRequest ids;
    *ids.mutable_ids() = call.token_ids().ids();
    Result<std::string> text = Detokenize(backend, context, ids);
    if (const auto* error = std::get_if<ApiError>(&text)) return *error;
    texts.push_back(std::get<std::string>(std::move(text)));
  }
  return texts;
}

}  // namespace

void HandleCompletion(const Backend& backend, Api api, const httplib::Request& request, httplib::Response& response) {
  RequestContext context = ContextOf(request);
  Result<CompletionRequest> parsed = ParseCompletionRequest(api, request.body, context.request_id);
  if (const auto* error = std::get_if<ApiError>(&parsed)) return SetError(*error, response);
  Result<std::vector<std::string>> prompts = PromptTexts(backend, context, std::get<CompletionRequest>(parsed));
  if (const auto* error = std::get_if<ApiError>(&prompts)) return SetError(*error, response);
  const bool stream = std::get<CompletionRequest>(parsed).stream;
  const auto completion =
      std::make_shared<Completion>(backend, std::get<CompletionRequest>(std::move(parsed)), std::move(context),
                                   std::get<std::vector<std::string>>(std::move(prompts)));
  if (const auto error = completion->Accept()) return SetError(*error, response);
  if (!stream) {
    const Result<std::string> whole = completion->Whole();
    if (const auto* error = std::get_if<ApiError>(&whole)) return SetError(*error, response);
    return response.set_content(std::get<std::string>(whole), kJsonType);
  }
  response.set_header("Cache-Control", "no-store");
  // All in one call: between two calls the library would cut the stream of a server that stops.
  response.set_chunked_content_provider("text/event-stream", [completion](size_t, httplib::DataSink& sink) {
    const bool whole = completion->Stream(sink);
    if (whole) sink.done();
    return whole;
  });
}

}  // namespace kvrelay::http
