#include "common/text/stream_decoder.h"

#include <gtest/gtest.h>

#include <random>

#include "common/text/tokenizer.h"
#include "tests/text/text_testing.h"

namespace kvrelay::text {
namespace {

constexpr char kR[] = "\xef\xbf\xbd";

std::string Stream(StreamDecoder decoder, const std::vector<std::string>& pieces) {
  std::string text;
  for (const std::string& piece : pieces) {
    const StreamDecoder::Piece out = decoder.Add(piece);
    text += out.text;
    if (out.stopped) return text + "|" + out.stop;
  }
  return text + decoder.Flush();
}

// Trap S1: a character over several tokens.
TEST(StreamDecoder, HoldsBackACharacterUntilItIsWhole) {
  StreamDecoder decoder;
  EXPECT_EQ(decoder.Add("a\xf0\x9f").text, "a");
  EXPECT_EQ(decoder.Add("\x99").text, "");
  EXPECT_EQ(decoder.Add("\x82z").text, "\xf0\x9f\x99\x82z");
  EXPECT_EQ(decoder.Flush(), "");
}

TEST(StreamDecoder, ReplacesWhatCanNeverBecomeACharacter) {
  StreamDecoder decoder;
  EXPECT_EQ(decoder.Add("\x80").text, kR);
  EXPECT_EQ(decoder.Add("\xe2\x82").text, "");
  EXPECT_EQ(decoder.Add("x").text, std::string(kR) + "x");
  EXPECT_EQ(decoder.Add("\xe2\x82").text, "");
  EXPECT_EQ(decoder.Flush(), kR);
  EXPECT_EQ(decoder.Flush(), "");
}

TEST(StreamDecoder, StopsInsideAndAcrossTokens) {
  EXPECT_EQ(Stream(StreamDecoder({"END"}), {"a END b"}), "a |END");
  EXPECT_EQ(Stream(StreamDecoder({"END"}), {"a E", "N", "D b"}), "a |END");
  EXPECT_EQ(Stream(StreamDecoder({"END"}), {"a E", "N", "d b"}), "a ENd b");
  EXPECT_EQ(Stream(StreamDecoder({"END"}), {"a E", "EN", "D"}), "a E|END");
  EXPECT_EQ(Stream(StreamDecoder({"END"}), {"END"}), "|END");
  EXPECT_EQ(Stream(StreamDecoder({"END"}), {"EN"}), "EN");
}

TEST(StreamDecoder, KeepsTheStopStringIfAsked) {
  EXPECT_EQ(Stream(StreamDecoder({"END"}, true), {"a E", "N", "D b"}), "a END|END");
  EXPECT_EQ(Stream(StreamDecoder({"cd", "bcd", "bcde"}, true), {"abcdef"}), "abcde|bcde");
  EXPECT_EQ(Stream(StreamDecoder({"END"}, true), {"a EN"}), "a EN");
}

TEST(StreamDecoder, OverlappingPrefixesOfOneStop) {
  EXPECT_EQ(Stream(StreamDecoder({"aab"}), {"a", "a", "a", "b"}), "a|aab");
  EXPECT_EQ(Stream(StreamDecoder({"abab!"}), {"ab", "abab", "!"}), "ab|abab!");
  EXPECT_EQ(Stream(StreamDecoder({"\n\nUser:"}), {"x\n", "\n", "\nUser", ":"}), "x\n|\n\nUser:");
}

TEST(StreamDecoder, EarliestStartThenLongest) {
  EXPECT_EQ(Stream(StreamDecoder({"cd", "bcd", "bcde"}), {"abcdef"}), "a|bcde");
  EXPECT_EQ(Stream(StreamDecoder({"bcde", "bcd", "cd"}), {"abcdef"}), "a|bcde");
  EXPECT_EQ(Stream(StreamDecoder({"x", "abc"}), {"ab", "cx"}), "|abc");
  // What is complete ends the text at once, though a longer one might have come.
  EXPECT_EQ(Stream(StreamDecoder({"bc", "abcd"}), {"abc", "d"}), "a|bc");
}

TEST(StreamDecoder, StopOfSeveralByteCharacters) {
  EXPECT_EQ(Stream(StreamDecoder({"끝"}), {"시작 ", "\xeb\x81", "\x9d!"}), "시작 |끝");
  EXPECT_EQ(Stream(StreamDecoder({"끝"}), {"시작 ", "\xeb\x81", "\x9c!"}), "시작 \xeb\x81\x9c!");
}

TEST(StreamDecoder, BeforeMinTokensStopsDoNotCount) {
  StreamDecoder decoder({"END", "NDX"});
  EXPECT_EQ(decoder.Add("END", false).text, "E");  // "ND" may begin the other one
  StreamDecoder::Piece piece = decoder.Add("!", true);
  EXPECT_FALSE(piece.stopped);  // END was complete before and counts no more
  EXPECT_EQ(piece.text, "ND!");
  // Begun before, completed after: it counts.
  EXPECT_EQ(decoder.Add("EN", false).text, "");
  piece = decoder.Add("D", true);
  EXPECT_TRUE(piece.stopped);
  EXPECT_EQ(piece.text, "");
  EXPECT_EQ(piece.stop, "END");
}

TEST(StreamDecoder, EmptyStopNeverMatches) { EXPECT_EQ(Stream(StreamDecoder({"", "b"}), {"a", "b"}), "a|b"); }

TEST(StreamDecoder, NothingIsLostByHoldingBack) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const auto letters = [&](int longest) {
      std::string text(1 + random() % longest, '\0');
      for (char& c : text) c = "ab\xc3\xa9"[random() % 4];
      return text;
    };
    std::vector<std::string> stops, pieces;
    for (int i = random() % 4; i > 0; --i) {
      std::string stop;
      for (int length = 1 + random() % 5; length > 0; --length) stop += random() % 2 ? "a" : "b";
      stops.push_back(stop);
    }
    std::string whole;
    for (int i = random() % 12; i > 0; --i) whole += pieces.emplace_back(letters(4));
    const std::string expected = ReplaceInvalidUtf8(whole);
    const std::string got = Stream(StreamDecoder(stops), pieces);
    const size_t bar = got.find('|');
    if (bar == std::string::npos) {
      EXPECT_EQ(got, expected);
      for (const std::string& stop : stops) EXPECT_EQ(expected.find(stop), std::string::npos);
    } else {
      const std::string stop = got.substr(bar + 1);
      EXPECT_EQ(got.substr(0, bar) + stop, expected.substr(0, bar + stop.size()));
      EXPECT_EQ(expected.find(stop), bar);
    }
  }
}

TEST(StreamDecoder, PiecesTogetherAreTheWholeDecode) {
  const Tokenizer& tokenizer = RealTokenizer();
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<int32_t> ids(random() % 40);
    for (int32_t& id : ids) {
      // Half of them from the start of the vocabulary, where the single bytes are.
      id = random() % (random() % 2 ? 300 : tokenizer.vocabulary_size());
    }
    StreamDecoder decoder({"\x01never\x02"});
    std::string text;
    for (const int32_t id : ids) {
      const std::string piece = decoder.Add(tokenizer.TokenBytes(id, false)).text;
      EXPECT_EQ(ReplaceInvalidUtf8(piece), piece);
      text += piece;
    }
    text += decoder.Flush();
    EXPECT_EQ(text, tokenizer.Decode(ids, false));
  }
}

}  // namespace
}  // namespace kvrelay::text
