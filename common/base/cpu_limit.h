// How many threads this process may keep busy.
#pragma once

namespace kvrelay {

// The smaller of the CPUs in the affinity mask and the cgroup (v1 or v2) CPU quota, rounded up; at least 1.
int UsableCpus();

}  // namespace kvrelay
