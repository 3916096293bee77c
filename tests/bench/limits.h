// What this machine can do at best: the denominators of every "% of limit".
#pragma once

#include <string>

namespace kvrelay::bench {

struct Limits {
  double read_gb_per_s;    // 512 MiB on 2 MiB pages, all threads, best of five
  double f32_gflop_per_s;  // independent fused multiply-adds in registers
  double int8_gop_per_s;   // 8-bit multiply-adds: vpdpbusd, or vpmaddubsw + vpaddw where there is no VNNI
};
Limits MeasureLimits(int threads);

// As /proc/cpuinfo names it.
std::string CpuName();

}  // namespace kvrelay::bench
