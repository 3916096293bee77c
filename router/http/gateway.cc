#include "router/http/gateway.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/rpc/host_port.h"
#include "router/http/completions_handler.h"
#include "router/http/handlers.h"
#include "router/http/native_handler.h"
#include "router/http/server.h"
#include "router/web/page.h"

namespace kvrelay::http {
namespace {

using httplib::Request;
using httplib::Response;

// What browsers ask about before they let a page of another site send a request.
void AllowOrigin(const std::string& origin, const Request& request, Response& response) {
  if (origin.empty()) return;
  response.set_header("Access-Control-Allow-Origin", origin);
  response.set_header("Access-Control-Expose-Headers", "x-request-id, retry-after");
  if (origin != "*") response.set_header("Vary", "Origin");
  if (request.method != "OPTIONS") return;
  response.set_header("Access-Control-Allow-Methods", "GET, POST");
  // Whatever headers it wants to send: OpenAI's client has a dozen of its own.
  response.set_header("Access-Control-Allow-Headers", request.get_header_value("Access-Control-Request-Headers"));
  response.set_header("Access-Control-Max-Age", "600");
}

// Nothing from elsewhere, nothing inline but what the page was built with, nobody's frame.
void ServePage(Response& response) {
  response.set_header("Content-Security-Policy", web::kPageContentSecurityPolicy);
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_header("Referrer-Policy", "no-referrer");
  response.set_header("Cross-Origin-Opener-Policy", "same-origin");
  response.set_header("Cache-Control", "no-cache");
  response.set_content(web::kPage, web::kPageBytes, "text/html; charset=utf-8");
}

class HttpGateway final : public Gateway {
 public:
  HttpGateway(const GatewayOptions& options, std::unique_ptr<TlsContext> tls, std::shared_ptr<grpc::Channel> channel)
      : backend_{.stub = v1::GenerationService::NewStub(std::move(channel)),
                 .model_name = options.model_name,
                 .fingerprint = options.fingerprint,
                 .context_length = options.context_length,
                 .started = Clock::Real()->UnixNanos() / 1'000'000'000},
        cors_origin_(options.cors_origin),
        server_(options.posts_max, options.times, std::move(tls)) {
    SetRoutes();
    SetCommon();
  }

  absl::Status Listen(const rpc::HostPort& listen) { return server_.Start(listen); }
  const std::string& address() const override { return server_.address(); }
  void Drain(absl::Duration grace) override { server_.Drain(grace); }

 private:
  void SetRoutes() {
    server_.Get("/health", [this](const Request&, Response& response) {
      const bool draining = server_.draining();
      response.status = draining ? 503 : 200;
      response.set_content(draining ? R"({"status": "draining"})" : R"({"status": "ok"})", kJsonType);
    });
    server_.Get("/v1/models",
                [this](const Request& request, Response& response) { HandleModels(backend_, "", request, response); });
    server_.Get("/v1/models/(.+)", [this](const Request& request, Response& response) {
      HandleModels(backend_, request.matches[1], request, response);
    });
    server_.Post("/v1/completions", [this](const Request& request, Response& response) {
      HandleCompletion(backend_, Api::kCompletions, request, response);
    });
    server_.Post("/v1/chat/completions", [this](const Request& request, Response& response) {
      HandleCompletion(backend_, Api::kChat, request, response);
    });
    server_.Post("/tokenize",
                 [this](const Request& request, Response& response) { HandleTokenize(backend_, request, response); });
    server_.Post("/detokenize",
                 [this](const Request& request, Response& response) { HandleDetokenize(backend_, request, response); });
    server_.Post("/kvrelay/v1/generate",
                 [this](const Request& request, Response& response) { HandleGenerate(backend_, request, response); });
    server_.Get("/kvrelay/v1/model",
                [this](const Request& request, Response& response) { HandleModel(backend_, request, response); });
    server_.Get("/kvrelay/v1/status",
                [this](const Request& request, Response& response) { HandleStatus(backend_, request, response); });
    server_.Get("/", [](const Request&, Response& response) { ServePage(response); });
    server_.Options(".*", [](const Request&, Response& response) { response.status = 204; });
  }

  void SetCommon() {
    server_.set_post_routing_handler([this](const Request& request, Response& response) {
      response.headers.erase("Keep-Alive");  // the library's own limits do not count here
      const std::string id = request.get_header_value("x-request-id");
      if (!id.empty()) response.set_header("x-request-id", id);  // requests that cannot be read have none
      if (const std::string parent = TraceParent(request); !parent.empty()) response.set_header("traceparent", parent);
      AllowOrigin(cors_origin_, request, response);
    });
    server_.set_error_handler([](const Request& request, Response& response) {
      if (!response.body.empty()) return;
      const bool unknown = response.status == 404;
      SetError({.status = response.status,
                .message = unknown ? absl::StrCat("there is no ", request.method, " ", request.path.substr(0, 128))
                                   : "the request cannot be read"},
               response);
    });
    server_.set_exception_handler([](const Request&, Response& response, std::exception_ptr) {
      SetError({.status = 500, .message = "the request could not be served"}, response);
    });
  }

  const Backend backend_;
  const std::string cors_origin_;
  Server server_;  // last: its threads use what is above
};

}  // namespace

absl::StatusOr<std::unique_ptr<Gateway>> Gateway::Start(const GatewayOptions& options,
                                                        std::shared_ptr<grpc::Channel> channel) {
  KV_ASSIGN_OR_RETURN(const rpc::HostPort listen, rpc::ParseHostPort(options.listen));
  std::unique_ptr<TlsContext> tls;
  if (!options.tls.cert.empty()) {
    KV_ASSIGN_OR_RETURN(tls, TlsContext::Load(options.tls));
  }
  auto gateway = std::make_unique<HttpGateway>(options, std::move(tls), std::move(channel));
  KV_RETURN_IF_ERROR(gateway->Listen(listen));
  return gateway;
}

}  // namespace kvrelay::http
