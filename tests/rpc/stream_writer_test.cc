#include "common/rpc/stream_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace kvrelay::rpc {
namespace {

// Stands for a gRPC reactor: remembers what it was asked to do, and fails when two writes overlap or one follows
// Finish.
struct FakeReactor {
  void StartWrite(const int* message) {
    EXPECT_FALSE(busy);
    EXPECT_TRUE(finished.empty());
    busy = true;
    written.push_back(*message);
  }
  void Finish(const grpc::Status& status) {
    EXPECT_FALSE(busy);
    finished.push_back(status.error_code());
  }
  bool busy = false;
  std::vector<int> written;
  std::vector<grpc::StatusCode> finished;
};

using Writer = StreamWriter<FakeReactor, int>;

void Complete(FakeReactor& reactor, Writer& writer, bool ok = true) {
  reactor.busy = false;
  writer.OnWriteDone(ok);
}

TEST(StreamWriterTest, WritesInOrderThenFinishes) {
  FakeReactor reactor;
  Writer writer(&reactor, 10, [] { FAIL() << "overflow"; });
  for (int i = 0; i < 3; ++i) writer.Push(i);
  writer.FinishAfterQueue(grpc::Status::OK);
  writer.Push(99);  // after the end: ignored
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(reactor.finished.empty());
    Complete(reactor, writer);
  }
  EXPECT_THAT(reactor.written, ::testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(reactor.finished, ::testing::ElementsAre(grpc::StatusCode::OK));
}

TEST(StreamWriterTest, OverflowsOnceBeyondTheLimit) {
  FakeReactor reactor;
  int overflows = 0;
  Writer writer(&reactor, 2, [&] { ++overflows; });
  for (int i = 0; i < 3; ++i) writer.Push(i);  // one on the way, two waiting
  EXPECT_EQ(overflows, 0);
  for (int i = 3; i < 6; ++i) writer.Push(i);
  EXPECT_EQ(overflows, 1);
  writer.FinishNow(grpc::Status::CANCELLED);
  writer.Push(6);
  Complete(reactor, writer, /*ok=*/false);
  EXPECT_THAT(reactor.written, ::testing::ElementsAre(0));
  EXPECT_THAT(reactor.finished, ::testing::ElementsAre(grpc::StatusCode::CANCELLED));
}

TEST(StreamWriterTest, FinishNowOvertakesFinishAfterQueue) {
  FakeReactor reactor;
  Writer writer(&reactor, 10, [] { FAIL() << "overflow"; });
  writer.Push(0);
  writer.Push(1);
  writer.FinishAfterQueue(grpc::Status::OK);
  writer.FinishNow(grpc::Status::CANCELLED);
  Complete(reactor, writer);
  EXPECT_THAT(reactor.written, ::testing::ElementsAre(0));
  EXPECT_EQ(reactor.finished.size(), 1);
}

TEST(StreamWriterTest, BrokenCallDropsTheQueue) {
  FakeReactor reactor;
  Writer writer(&reactor, 10, [] { FAIL() << "overflow"; });
  writer.Push(0);
  writer.Push(1);
  Complete(reactor, writer, /*ok=*/false);
  EXPECT_THAT(reactor.written, ::testing::ElementsAre(0));
  writer.FinishNow(grpc::Status::CANCELLED);
  EXPECT_THAT(reactor.finished, ::testing::ElementsAre(grpc::StatusCode::CANCELLED));
}

TEST(StreamWriterTest, SignsOfLifeOnlyWhenIdle) {
  FakeReactor reactor;
  Writer writer(&reactor, 10, [] { FAIL() << "overflow"; });
  writer.PushIfIdle(1);
  writer.PushIfIdle(2);
  Complete(reactor, writer);
  writer.PushIfIdle(3);
  EXPECT_THAT(reactor.written, ::testing::ElementsAre(1, 3));
}

TEST(StreamWriterTest, OneFinishFromManyThreads) {
  FakeReactor reactor;
  Writer writer(&reactor, 10, [] { FAIL() << "overflow"; });
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { writer.FinishNow(grpc::Status::CANCELLED); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(reactor.finished.size(), 1);
}

}  // namespace
}  // namespace kvrelay::rpc
