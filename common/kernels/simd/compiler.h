// What the kernel sources ask of the compiler.
#pragma once

#define KVRELAY_INLINE inline __attribute__((always_inline))
#define KVRELAY_NOINLINE __attribute__((noinline))

// Before a loop over at most n registers: arrays stay in registers only if it is unrolled. A file that is compiled for
// its bits alone may define this as nothing.
#ifndef KVRELAY_UNROLL
#define KVRELAY_PRAGMA(text) _Pragma(#text)
#define KVRELAY_UNROLL(n) KVRELAY_PRAGMA(GCC unroll n)
#endif
