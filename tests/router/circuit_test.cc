#include "router/circuit.h"

#include <gtest/gtest.h>

namespace kvrelay::router {
namespace {

TEST(CircuitTest, OpensAfterFailuresInARow) {
  Circuit circuit;
  const absl::Duration now = absl::Seconds(100);
  for (int i = 0; i < 2; ++i) circuit.OnFailure(now);
  EXPECT_TRUE(circuit.Allows(now));
  circuit.OnSuccess();
  for (int i = 0; i < 2; ++i) circuit.OnFailure(now);
  EXPECT_TRUE(circuit.Allows(now)) << "a success starts the count anew";
  circuit.OnFailure(now);
  EXPECT_FALSE(circuit.Allows(now));
}

TEST(CircuitTest, OneTrialAtATimeAndLongerPauses) {
  Circuit circuit;
  absl::Duration now = absl::Seconds(100);
  for (int i = 0; i < Circuit::kFailuresMax; ++i) circuit.OnFailure(now);
  absl::Duration pause = Circuit::kPauseMin;
  for (int round = 0; round < 8; ++round) {
    EXPECT_FALSE(circuit.Allows(now + pause - absl::Milliseconds(1)));
    now += pause;
    ASSERT_TRUE(circuit.Allows(now));
    circuit.OnCall();
    EXPECT_FALSE(circuit.Allows(now)) << "the outcome of the trial is not known yet";
    circuit.OnFailure(now);
    pause = std::min(pause * 2, Circuit::kPauseMax);
  }
  now += pause;
  circuit.OnCall();
  circuit.OnSuccess();
  EXPECT_TRUE(circuit.Allows(now));
  circuit.OnCall();
  EXPECT_TRUE(circuit.Allows(now));
}

}  // namespace
}  // namespace kvrelay::router
