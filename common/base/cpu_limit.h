// How many threads this process may keep busy.
#pragma once

#include <string>
#include <vector>

namespace kvrelay {

// The smaller of the CPUs in the affinity mask and the cgroup (v1 or v2) CPU quota, rounded up; at least 1.
int UsableCpus();

// The same with both sources given: CPUs in the mask, and the directory where the cgroup file system is mounted.
int UsableCpus(int allowed, const std::string& cgroup);

// The CPUs in the affinity mask, ascending.
std::vector<int> AllowedCpus();

}  // namespace kvrelay
