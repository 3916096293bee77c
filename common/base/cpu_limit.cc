#include "common/base/cpu_limit.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

namespace kvrelay {
namespace {

// CPUs granted by a quota; infinity if there is none.
double CgroupQuota(const std::string& cgroup) {
  double quota = -1, period = -1;
  std::string word;
  if (std::ifstream v2(cgroup + "/cpu.max"); v2 >> word >> period) {
    if (word == "max") return INFINITY;
    quota = std::atof(word.c_str());
  } else {
    std::ifstream(cgroup + "/cpu/cpu.cfs_quota_us") >> quota;
    std::ifstream(cgroup + "/cpu/cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : INFINITY;
}

}  // namespace

int UsableCpus() { return UsableCpus(static_cast<int>(AllowedCpus().size()), "/sys/fs/cgroup"); }

int UsableCpus(int allowed, const std::string& cgroup) {
  return std::max(1, static_cast<int>(std::min<double>(allowed, std::ceil(CgroupQuota(cgroup)))));
}

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

}  // namespace kvrelay
