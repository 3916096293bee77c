#include "decode_worker/options.h"

#include <iostream>

#include "common/rpc/options_flags.h"
#include "common/rpc/server.h"

namespace kvrelay::decode_worker {

std::variant<worker::WorkerOptions, int> ParseOptions(int argc, const char* const* argv) {
  auto parsed = worker::ParseWorkerOptions(argc, argv, "decode", [](Flags& flags, worker::WorkerOptions& options) {
    rpc::AddFlag(flags, "advertise", options.advertise,
                 "host:port at which prefill workers reach this worker (default: the address it listens on)");
    rpc::AddFlag(flags, "draft-tokens", options.draft_tokens,
                 "most guessed tokens that a step checks while few streams share it; 0: none")
        .Range(0, 64);
  });
  const auto* options = std::get_if<worker::WorkerOptions>(&parsed);
  if (options == nullptr || !options->advertise.empty()) return parsed;
  const std::string host = rpc::ParseHostPort(options->listen)->host;
  if (host != "0.0.0.0" && host != "::") return parsed;
  std::cerr << "kvrelay-decode: --listen " << options->listen
            << " names no address that others could reach; give one with --advertise\n";
  return 2;
}

}  // namespace kvrelay::decode_worker
