#include "common/kv_wire/digest.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/escaping.h"

namespace kvrelay::kv_wire {
namespace {

Digest DigestOfText(std::string_view text) {
  return DigestOf(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()), text.size()));
}

std::string Hex(const Digest& digest) { return absl::BytesToHexString(std::string(digest.begin(), digest.end())); }

TEST(Digest, IsCanonicalXxh3) {
  // What `xxhsum -H128` prints.
  EXPECT_EQ(Hex(DigestOfText("")), "99aa06d3014798d86001c324468d497f");
}

TEST(HandoffDigest, DoesNotDependOnArrivalOrder) {
  HandoffDigest up(2, 3), down(2, 3);
  for (int i = 0; i < 6; ++i) up.Add(i / 3, i % 3, DigestOfText(std::to_string(i)));
  for (int i = 5; i >= 0; --i) down.Add(i / 3, i % 3, DigestOfText(std::to_string(i)));
  EXPECT_EQ(up.Finish(3), down.Finish(3));

  std::string concatenated;
  for (int i = 0; i < 6; ++i) {
    const Digest digest = DigestOfText(std::to_string(i));
    concatenated.append(digest.begin(), digest.end());
  }
  EXPECT_EQ(up.Finish(3), DigestOfText(concatenated)) << "layer ascending, within it block ascending";
}

TEST(HandoffDigest, EveryPairMatters) {
  const auto with = [](int changed) {
    HandoffDigest digest(2, 2);
    for (int i = 0; i < 4; ++i) digest.Add(i / 2, i % 2, DigestOfText(i == changed ? "other" : std::to_string(i)));
    return digest.Finish(2);
  };
  for (int changed = 0; changed < 4; ++changed) EXPECT_NE(with(changed), with(-1));
}

TEST(HandoffDigest, IsCompleteExactlyWithAllPairsOfThePrefix) {
  HandoffDigest digest(2, 3);
  EXPECT_FALSE(digest.Complete(1));
  digest.Add(0, 0, {});
  EXPECT_FALSE(digest.Complete(1));
  digest.Add(1, 0, {});
  EXPECT_TRUE(digest.Complete(1));
  EXPECT_FALSE(digest.Complete(2));
  EXPECT_FALSE(digest.Complete(4));
  digest.Add(0, 2, {});
  digest.Add(1, 2, {});
  EXPECT_FALSE(digest.Complete(1)) << "there is more than the prefix";
  EXPECT_FALSE(digest.Complete(2)) << "as many as two blocks need, but others";
}

TEST(HandoffDigestDeathTest, BrokenPromises) {
  HandoffDigest digest(2, 3);
  digest.Add(1, 2, {});
  EXPECT_DEATH(digest.Add(1, 2, {}), "added once");
  EXPECT_DEATH(digest.Add(2, 0, {}), "inside the handoff");
  EXPECT_DEATH(digest.Add(0, 3, {}), "inside the handoff");
  EXPECT_DEATH(digest.Finish(3), "covers all its frames");
}

}  // namespace
}  // namespace kvrelay::kv_wire
