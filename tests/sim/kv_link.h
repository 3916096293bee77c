// The sender's end of simulated ReceiveKv calls, and the faults of their frames.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/kv_wire/kv_link.h"
#include "tests/sim/network.h"
#include "tests/sim/observer.h"

namespace kvrelay::sim {

// Opens ReceiveKv calls on behalf of one call of a worker; End ends them with it.
class Transport final : public kv_wire::KvTransport {
 public:
  Transport(Network* network, Observer* observer, Process* process)
      : network_(network), observer_(observer), process_(process) {}
  std::shared_ptr<kv_wire::KvLink> Open(const std::string& address,
                                        std::shared_ptr<kv_wire::KvLinkListener> listener) override;
  void End();

 private:
  Network* const network_;
  Observer* const observer_;
  Process* const process_;
  std::vector<std::weak_ptr<kv_wire::KvLink>> links_;
};

// "10.0.0.NODE:7000" and back.
std::string AddressOf(int node);
int NodeOf(const std::string& address);

}  // namespace kvrelay::sim
