#include "common/base/status_macros.h"

#include <memory>
#include <utility>

#include "gtest/gtest.h"

namespace kvrelay {
namespace {

absl::Status FailIf(bool fail) { return fail ? absl::NotFoundError("gone") : absl::OkStatus(); }
absl::StatusOr<int> NumberOr(bool fail) {
  if (fail) return absl::DataLossError("flipped");
  return 7;
}

absl::Status Steps(bool fail, int& reached) {
  reached = 1;
  KV_RETURN_IF_ERROR(FailIf(fail));
  reached = 2;
  return absl::OkStatus();
}

TEST(StatusMacrosTest, ReturnIfErrorStopsAtTheError) {
  int reached = 0;
  EXPECT_EQ(Steps(true, reached), absl::NotFoundError("gone"));
  EXPECT_EQ(reached, 1);
  EXPECT_TRUE(Steps(false, reached).ok());
  EXPECT_EQ(reached, 2);
}

absl::StatusOr<int> Sum(bool fail_first, bool fail_second) {
  KV_ASSIGN_OR_RETURN(const int first, NumberOr(fail_first));
  int second = 0;
  KV_ASSIGN_OR_RETURN(second, NumberOr(fail_second));
  return first + second;
}

TEST(StatusMacrosTest, AssignOrReturnDeclaresAndAssigns) {
  EXPECT_EQ(Sum(false, false).value(), 14);
  EXPECT_EQ(Sum(true, false).status(), absl::DataLossError("flipped"));
  EXPECT_EQ(Sum(false, true).status(), absl::DataLossError("flipped"));
}

absl::StatusOr<std::unique_ptr<int>> MoveThrough() {
  KV_ASSIGN_OR_RETURN(auto owned, absl::StatusOr<std::unique_ptr<int>>(std::make_unique<int>(5)));
  return owned;
}

TEST(StatusMacrosTest, AssignOrReturnMoves) { EXPECT_EQ(*MoveThrough().value(), 5); }

absl::Status Branches(bool take, bool fail) {
  // Must bind as a single statement, so that the else belongs to the outer if.
  if (take)
    KV_RETURN_IF_ERROR(FailIf(fail));
  else
    return absl::AbortedError("not taken");
  return absl::OkStatus();
}

TEST(StatusMacrosTest, ReturnIfErrorIsOneStatement) {
  EXPECT_TRUE(Branches(true, false).ok());
  EXPECT_EQ(Branches(true, true), absl::NotFoundError("gone"));
  EXPECT_EQ(Branches(false, true), absl::AbortedError("not taken"));
}

}  // namespace
}  // namespace kvrelay
