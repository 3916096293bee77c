#include "common/rpc/peer_role.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/rpc/status_mapping.h"

namespace kvrelay::rpc {
namespace {

constexpr PeerRole kRoles[] = {PeerRole::kRouter, PeerRole::kPrefill, PeerRole::kDecode};

// The table of the header. No roles: any peer.
struct Rule {
  std::string_view service;
  std::vector<PeerRole> callers;
};
const std::vector<Rule>& Rules() {
  static const auto* rules = new std::vector<Rule>{
      {"kvrelay.worker.v1.KvService", {PeerRole::kPrefill, PeerRole::kDecode}},
      {"kvrelay.worker.v1.PrefillService", {PeerRole::kRouter}},
      {"kvrelay.worker.v1.DecodeService", {PeerRole::kRouter}},
      {"kvrelay.worker.v1.WorkerService", {PeerRole::kRouter}},
      {"grpc.health.v1.Health", {}},
      {"grpc.reflection.v1alpha.ServerReflection", {}},
  };
  return *rules;
}

// SERVICE of /SERVICE/METHOD; empty for anything else.
std::string_view ServiceOf(std::string_view path) {
  const size_t slash = path.find('/', 1);
  return path.empty() || path[0] != '/' || slash == std::string_view::npos ? "" : path.substr(1, slash - 1);
}

class RoleCheck final : public grpc::AuthMetadataProcessor {
 public:
  explicit RoleCheck(std::string trust_domain) : trust_domain_(std::move(trust_domain)) {}

  bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context, OutputMetadata*,
                       OutputMetadata*) override {
    const auto path = metadata.find(":path");
    std::vector<std::string> uris;
    for (const grpc::string_ref& uri : context->FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
      uris.emplace_back(uri.data(), uri.size());
    }
    return ToGrpc(CheckCall(
        path == metadata.end() ? std::string_view() : std::string_view(path->second.data(), path->second.size()), uris,
        trust_domain_));
  }

 private:
  const std::string trust_domain_;
};

}  // namespace

const char* RoleName(PeerRole role) {
  switch (role) {
    case PeerRole::kRouter:
      return "router";
    case PeerRole::kPrefill:
      return "prefill";
    case PeerRole::kDecode:
      return "decode";
  }
  return "unknown";
}

std::string RoleUri(const std::string& trust_domain, PeerRole role) {
  return absl::StrCat("spiffe://", trust_domain, "/", RoleName(role));
}

absl::StatusOr<PeerRole> RoleOf(const std::vector<std::string>& uris, const std::string& trust_domain) {
  std::optional<PeerRole> found;
  for (const PeerRole role : kRoles) {
    if (std::find(uris.begin(), uris.end(), RoleUri(trust_domain, role)) == uris.end()) continue;
    if (found.has_value()) {
      return absl::PermissionDeniedError(absl::StrCat("the certificate names two roles, ", RoleName(*found), " and ",
                                                      RoleName(role), "; it must name one"));
    }
    found = role;
  }
  if (found.has_value()) return *found;
  return absl::PermissionDeniedError(absl::StrCat("the certificate names no role: none of its URI names is spiffe://",
                                                  trust_domain, "/ROLE with ROLE router, prefill or decode"));
}

absl::Status CheckCall(std::string_view path, const std::vector<std::string>& uris, const std::string& trust_domain) {
  const std::string_view service = ServiceOf(path);
  const auto rule = std::find_if(Rules().begin(), Rules().end(), [&](const Rule& r) { return r.service == service; });
  if (rule == Rules().end()) return absl::PermissionDeniedError("nobody may call this service here");
  if (rule->callers.empty()) return absl::OkStatus();
  const absl::StatusOr<PeerRole> role = RoleOf(uris, trust_domain);
  if (!role.ok()) return role.status();
  if (std::find(rule->callers.begin(), rule->callers.end(), *role) != rule->callers.end()) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "the certificate's role is ", RoleName(*role), "; ", absl::string_view(service.data(), service.size()),
      " may be called by ", absl::StrJoin(rule->callers, " or ", [](std::string* out, PeerRole caller) {
        absl::StrAppend(out, RoleName(caller));
      })));
}

std::shared_ptr<grpc::AuthMetadataProcessor> NewRoleCheck(std::string trust_domain) {
  return std::make_shared<RoleCheck>(std::move(trust_domain));
}

}  // namespace kvrelay::rpc
