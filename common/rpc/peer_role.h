// Who a peer is, and what it may call. Our own processes tell their role by one URI name (subject alternative name) of
// their certificate, in the form of SPIFFE: spiffe://TRUST_DOMAIN/ROLE with ROLE router, prefill or decode. Names of
// other kinds and URIs of other trust domains or paths do not count.
//
//   service                              may be called by
//   kvrelay.worker.v1.KvService          prefill, decode
//   kvrelay.worker.v1.PrefillService     router
//   kvrelay.worker.v1.DecodeService      router
//   kvrelay.worker.v1.WorkerService      router
//   grpc.health.v1.Health, reflection    whoever has a certificate of the CA
//   anything else                        nobody
//
// Pure; thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace grpc {
class AuthMetadataProcessor;
}

namespace kvrelay::rpc {

inline constexpr char kDefaultTrustDomain[] = "kvrelay";

enum class PeerRole { kRouter, kPrefill, kDecode };

const char* RoleName(PeerRole role);  // "router", "prefill", "decode"
// spiffe://TRUST_DOMAIN/ROLE
std::string RoleUri(const std::string& trust_domain, PeerRole role);

// The role that the URI names of a certificate tell. PERMISSION_DENIED if none or several do.
absl::StatusOr<PeerRole> RoleOf(const std::vector<std::string>& uris, const std::string& trust_domain);

// Whether a peer with these URI names may call `path`, /SERVICE/METHOD. PERMISSION_DENIED says what was wrong.
absl::Status CheckCall(std::string_view path, const std::vector<std::string>& uris, const std::string& trust_domain);

// CheckCall on every call of a server with TLS, before it reaches a service.
std::shared_ptr<grpc::AuthMetadataProcessor> NewRoleCheck(std::string trust_domain);

}  // namespace kvrelay::rpc
