#include "common/base/version.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvrelay {
namespace {

TEST(VersionTest, HasThreeNumbers) { EXPECT_THAT(Version(), testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+")); }

}  // namespace
}  // namespace kvrelay
