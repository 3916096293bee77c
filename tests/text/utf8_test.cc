#include "common/text/utf8.h"

#include <gtest/gtest.h>

#include "common/text/tokenizer.h"

namespace kvrelay::text {
namespace {

constexpr char kReplacement[] = "\xef\xbf\xbd";

// The worked examples of the Unicode Standard, section 3.9, "U+FFFD Substitution of Maximal Subparts".
TEST(Utf8, ReplacesMaximalSubparts) {
  const std::string r = kReplacement;
  EXPECT_EQ(ReplaceInvalidUtf8("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(ReplaceInvalidUtf8("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(ReplaceInvalidUtf8("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(ReplaceInvalidUtf8("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"), r + r + r + r + "A");
}

TEST(Utf8, KeepsEveryBoundaryCharacter) {
  for (const std::string& character :
       {std::string(1, '\0'), std::string("\x7f"), std::string("\xc2\x80"), std::string("\xdf\xbf"),
        std::string("\xe0\xa0\x80"), std::string("\xed\x9f\xbf"), std::string("\xee\x80\x80"),
        std::string("\xef\xbf\xbf"), std::string("\xf0\x90\x80\x80"), std::string("\xf4\x8f\xbf\xbf")}) {
    EXPECT_EQ(ReplaceInvalidUtf8(character), character);
    EXPECT_EQ(NextUtf8Part(character).size, character.size());
    for (size_t size = 1; size < character.size(); ++size) {
      EXPECT_EQ(NextUtf8Part(std::string_view(character).substr(0, size)).kind, Utf8Part::kIncomplete);
      EXPECT_EQ(ReplaceInvalidUtf8(character.substr(0, size)), kReplacement);
    }
  }
  EXPECT_EQ(ReplaceInvalidUtf8(""), "");
}

TEST(Utf8, AppendLeavesOnlyAnIncompleteEnd) {
  std::string text = "x";
  EXPECT_EQ(AppendValidUtf8("a\xff\xe2\x82", text), 2u);
  EXPECT_EQ(text, std::string("xa") + kReplacement);
}

}  // namespace
}  // namespace kvrelay::text
