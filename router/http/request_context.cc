#include "router/http/request_context.h"

#include <algorithm>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/http_peer.h"

namespace kvrelay::http {
namespace {

constexpr char kRequestId[] = "x-request-id";

// What gRPC takes as the value of metadata.
bool IsPlain(const std::string& value) {
  return std::all_of(value.begin(), value.end(), [](unsigned char c) { return c >= 0x20 && c < 0x7F; });
}

std::string NewId() {
  std::random_device random;
  return absl::StrCat("h-", absl::Hex(random(), absl::kZeroPad8), absl::Hex(random(), absl::kZeroPad8));
}

// As gRPC writes the address of a peer, so that a client's share is one whichever way it comes.
std::string PeerName(const std::string& address) {
  constexpr absl::string_view kMapped = "::ffff:";
  const bool mapped = absl::StartsWith(address, kMapped) && absl::StrContains(address, '.');
  if (mapped) return absl::StrCat("ipv4:", address.substr(kMapped.size()));
  if (absl::StrContains(address, ':')) return absl::StrCat("ipv6:%5B", address, "%5D");
  return absl::StrCat("ipv4:", address);
}

}  // namespace

std::string RequestId(const std::string& sent) {
  std::string id;
  std::copy_if(sent.begin(), sent.end(), std::back_inserter(id),
               [](unsigned char c) { return absl::ascii_isgraph(c); });
  id.resize(std::min(id.size(), kRequestIdBytesMax));
  return id.empty() ? NewId() : id;
}

void Prepare(httplib::Request& request, std::function<bool()> alive) {
  const std::string id = RequestId(request.get_header_value(kRequestId));
  request.headers.erase(kRequestId);
  request.set_header(kRequestId, id);
  // The library has this member for its client side; it asks whether to go on.
  request.progress = [alive = std::move(alive)](uint64_t, uint64_t) { return alive(); };
}

RequestContext ContextOf(const httplib::Request& request) {
  RequestContext context;
  context.request_id = request.get_header_value(kRequestId);
  context.alive = [progress = request.progress] { return progress(0, 0); };
  const auto [first, last] = request.headers.equal_range("authorization");
  for (auto it = first; it != last; ++it) {
    if (IsPlain(it->second)) context.metadata.emplace_back("authorization", it->second);
  }
  if (std::string parent = TraceParent(request); !parent.empty()) context.metadata.emplace_back("traceparent", parent);
  context.metadata.emplace_back(rpc::kHttpPeer, PeerName(request.remote_addr));
  return context;
}

std::string TraceParent(const httplib::Request& request) {
  const std::string sent = request.get_header_value("traceparent");
  constexpr absl::string_view kForm = "00-00000000000000000000000000000000-0000000000000000-00";
  bool good = sent.size() == kForm.size();
  for (size_t i = 0; good && i < kForm.size(); ++i) {
    const bool digit = absl::ascii_isdigit(sent[i]) || (sent[i] >= 'a' && sent[i] <= 'f');
    good = kForm[i] == '-' ? sent[i] == '-' : digit;
  }
  return good ? sent : "";
}

}  // namespace kvrelay::http
