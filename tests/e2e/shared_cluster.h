// One service for all tests that leave it as they found it: two prefill and two decode workers behind one router.
// Started with the first test, stopped and checked after the last.
#pragma once

#include <gtest/gtest.h>

#include "tests/e2e/cluster.h"

namespace kvrelay::e2e {

class SharedClusterTest : public ::testing::Test {
 protected:
  void SetUp() override;
  // After each test: all processes live, and no worker holds blocks or sessions.
  void TearDown() override;

  Cluster& cluster();
  v1::GenerationService::Stub& stub() { return cluster().stub(); }
};

}  // namespace kvrelay::e2e
