// TLS between a server and channels in this process.
#include "common/rpc/credentials.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "kvrelay/worker/v1/worker.grpc.pb.h"
#include "tests/testing/certificates.h"

namespace kvrelay::rpc {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using worker::v1::WatchStatusRequest;
using worker::v1::WatchStatusResponse;
using worker::v1::WorkerService;

// Answers once, and keeps the stream open until it is cancelled.
class WatchService final : public WorkerService::CallbackService {
 public:
  grpc::ServerWriteReactor<WatchStatusResponse>* WatchStatus(grpc::CallbackServerContext*,
                                                             const WatchStatusRequest*) override {
    class Reactor : public grpc::ServerWriteReactor<WatchStatusResponse> {
     public:
      Reactor() { StartWrite(&response_); }
      void OnCancel() override { Finish(grpc::Status::CANCELLED); }
      void OnDone() override { delete this; }

     private:
      WatchStatusResponse response_;
    };
    return new Reactor;
  }
};

class CredentialsTest : public ::testing::Test {
 protected:
  CredentialsTest() : directory_(::testing::TempDir() + "/credentials_test") {
    std::filesystem::create_directories(directory_);
  }
  ~CredentialsTest() override { std::filesystem::remove_all(directory_); }

  // Writes the files of a process under `name`.
  TlsFiles Write(const std::string& name, testing::TestCa& issuer, const testing::CertificateOptions& options) {
    const auto pair = issuer.Issue(options);
    const TlsFiles files{.cert = Path(name + ".crt"), .key = Path(name + ".key"), .ca = Path("ca.crt")};
    testing::WriteFileAtOnce(files.cert, pair.cert);
    testing::WriteFileAtOnce(files.key, pair.key);
    testing::WriteFileAtOnce(files.ca, ca_.cert_pem());
    return files;
  }
  TlsFiles WriteRole(PeerRole role) { return Write(RoleName(role), ca_, {.uris = {RoleUri("kvrelay", role)}}); }
  std::unique_ptr<MutualTls> Load(PeerRole role) {
    auto loaded = MutualTls::Load(WriteRole(role), "kvrelay", role);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return *std::move(loaded);
  }
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }

  void Serve(const std::shared_ptr<grpc::ServerCredentials>& credentials) {
    auto server = Server::Start({.listen = "127.0.0.1:0", .credentials = credentials},
                                {{WorkerService::service_full_name(), &service_}});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  // How a call ends that is cancelled as soon as the service has answered: CANCELLED if it was let through.
  grpc::Status Call(const std::shared_ptr<grpc::ChannelCredentials>& credentials, const std::string& host = "") {
    const HostPort bound = *ParseHostPort(server_->address());
    const std::string address = JoinHostPort({host.empty() ? bound.host : host, bound.port});
    auto stub = WorkerService::NewStub(NewChannel(address, credentials));
    grpc::ClientContext context;
    auto reader = stub->WatchStatus(&context, {});
    WatchStatusResponse response;
    if (reader->Read(&response)) context.TryCancel();
    return reader->Finish();
  }
  // A client with any certificate of any CA that trusts our CA and does not look at the server's name.
  std::shared_ptr<grpc::ChannelCredentials> Outsider(const TlsFiles& files) {
    auto credentials = ClientCredentials(files);
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    return *std::move(credentials);
  }

  const std::string directory_;
  testing::TestCa ca_, other_ca_{"other CA"};
  WatchService service_;
  std::unique_ptr<Server> server_;
};

TEST_F(CredentialsTest, OnlyTheRightRoleGetsThrough) {
  const auto decode = Load(PeerRole::kDecode), router = Load(PeerRole::kRouter), prefill = Load(PeerRole::kPrefill);
  Serve(decode->Server());
  EXPECT_EQ(Call(router->ChannelTo(PeerRole::kDecode)).error_code(), grpc::StatusCode::CANCELLED);
  const grpc::Status denied = Call(prefill->ChannelTo(PeerRole::kDecode));
  EXPECT_EQ(denied.error_code(), grpc::StatusCode::PERMISSION_DENIED) << denied.error_message();
  EXPECT_THAT(denied.error_message(), HasSubstr("role is prefill"));
  const grpc::Status nobody = Call(Outsider(Write("nobody", ca_, {})));
  EXPECT_EQ(nobody.error_code(), grpc::StatusCode::PERMISSION_DENIED) << nobody.error_message();
  EXPECT_THAT(nobody.error_message(), HasSubstr("names no role"));
}

TEST_F(CredentialsTest, TheServersRoleIsCheckedToo) {
  const auto decode = Load(PeerRole::kDecode), router = Load(PeerRole::kRouter);
  Serve(decode->Server());
  const grpc::Status status = Call(router->ChannelTo(PeerRole::kPrefill));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
}

TEST_F(CredentialsTest, StrangersFailInTheHandshake) {
  const auto decode = Load(PeerRole::kDecode);
  Serve(decode->Server());
  const std::string router = RoleUri("kvrelay", PeerRole::kRouter);
  TlsFiles without = Write("x", ca_, {.uris = {router}});
  without.cert.clear();
  without.key.clear();
  EXPECT_EQ(Call(Outsider(without)).error_code(), grpc::StatusCode::UNAVAILABLE) << "no certificate";
  EXPECT_EQ(Call(Outsider(Write("x", other_ca_, {.uris = {router}}))).error_code(), grpc::StatusCode::UNAVAILABLE)
      << "another CA";
  EXPECT_EQ(Call(grpc::InsecureChannelCredentials()).error_code(), grpc::StatusCode::UNAVAILABLE) << "plaintext";
}

TEST_F(CredentialsTest, PublicPort) {
  const auto certificates = Certificates::Load({.cert = WriteRole(PeerRole::kRouter).cert, .key = Path("router.key")});
  ASSERT_TRUE(certificates.ok()) << certificates.status();
  Serve(PublicServerCredentials(**certificates));
  const TlsFiles ca_alone{.ca = Path("ca.crt")};
  EXPECT_EQ(Call(Outsider(ca_alone)).error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(Call(Outsider(ca_alone), "localhost").error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(Call(Outsider(ca_alone), "127.0.0.2").error_code(), grpc::StatusCode::UNAVAILABLE) << "another name";
  testing::WriteFileAtOnce(Path("other.crt"), other_ca_.cert_pem());
  EXPECT_EQ(Call(Outsider({.ca = Path("other.crt")})).error_code(), grpc::StatusCode::UNAVAILABLE) << "another CA";
  EXPECT_EQ(Call(grpc::InsecureChannelCredentials()).error_code(), grpc::StatusCode::UNAVAILABLE) << "plaintext";
}

TEST_F(CredentialsTest, PublicPortWithClientCertificates) {
  const auto certificates = Certificates::Load(WriteRole(PeerRole::kRouter));
  ASSERT_TRUE(certificates.ok()) << certificates.status();
  Serve(PublicServerCredentials(**certificates));
  EXPECT_EQ(Call(Outsider({.ca = Path("ca.crt")})).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Call(Outsider(Write("client", other_ca_, {}))).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Call(Outsider(Write("client", ca_, {}))).error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(CredentialsTest, ACertificateWithoutItsRoleEndsTheStart) {
  const auto wrong = MutualTls::Load(WriteRole(PeerRole::kPrefill), "kvrelay", PeerRole::kDecode);
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(wrong.status().message()),
              ::testing::AllOf(HasSubstr("spiffe://kvrelay/decode"), HasSubstr("it has [spiffe://kvrelay/prefill]")));
  const auto domain = MutualTls::Load(WriteRole(PeerRole::kDecode), "prod", PeerRole::kDecode);
  EXPECT_EQ(domain.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CredentialsTest, ReloadReachesNewConnectionsAndLeavesOldOnes) {
  const auto certificates = Certificates::Load({.cert = WriteRole(PeerRole::kRouter).cert, .key = Path("router.key")});
  ASSERT_TRUE(certificates.ok()) << certificates.status();
  Serve(PublicServerCredentials(**certificates));
  testing::WriteFileAtOnce(Path("old.crt"), ca_.cert_pem());
  testing::WriteFileAtOnce(Path("new.crt"), other_ca_.cert_pem());
  const auto old_stub = WorkerService::NewStub(NewChannel(server_->address(), Outsider({.ca = Path("old.crt")})));
  grpc::ClientContext context;
  auto reader = old_stub->WatchStatus(&context, {});
  WatchStatusResponse response;
  ASSERT_TRUE(reader->Read(&response));

  // For a moment the new certificate stands beside the old key, as when they are written one after the other.
  const auto pair = other_ca_.Issue({.name = "next"});
  testing::WriteFileAtOnce(Path("router.crt"), pair.cert);
  while (Call(Outsider({.ca = Path("old.crt")})).error_code() == grpc::StatusCode::CANCELLED) {
  }
  testing::WriteFileAtOnce(Path("router.key"), pair.key);
  while (Call(Outsider({.ca = Path("new.crt")})).error_code() != grpc::StatusCode::CANCELLED) {
  }
  EXPECT_EQ(Call(Outsider({.ca = Path("old.crt")})).error_code(), grpc::StatusCode::UNAVAILABLE);
  // A call on the old connection: a new one with the old CA would fail.
  grpc::ClientContext second_context;
  auto second = old_stub->WatchStatus(&second_context, {});
  EXPECT_TRUE(second->Read(&response)) << "the old connection is gone";
  second_context.TryCancel();
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

}  // namespace
}  // namespace kvrelay::rpc
