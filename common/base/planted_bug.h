// Bugs that are put into the protocol on purpose, to see that the simulator (tests/sim) finds them.
//
//   if (!KV_PLANTED(lost_finish)) SendFinish();
//
// In every product build KV_PLANTED is the constant false, so that no planted bug is even compiled into a program. The
// simulator compiles the sources of the protocol a second time with KVRELAY_PLANTED_BUGS, where it is a switch.
#pragma once

#ifdef KVRELAY_PLANTED_BUGS

namespace kvrelay {

// Whether this bug is the one that is switched on. Defined by the simulator.
bool IsPlanted(const char* name);

}  // namespace kvrelay

#define KV_PLANTED(name) (::kvrelay::IsPlanted(#name))

#else

#define KV_PLANTED(name) false

#endif
