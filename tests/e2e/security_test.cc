// A service with TLS on every hop, tokens and quotas, and everybody who must stay outside.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>

#include <filesystem>
#include <optional>

#include "common/rpc/channel.h"
#include "common/rpc/credentials.h"
#include "common/rpc/status_mapping.h"
#include "kvrelay/worker/v1/decode.grpc.pb.h"
#include "kvrelay/worker/v1/kv.grpc.pb.h"
#include "kvrelay/worker/v1/prefill.grpc.pb.h"
#include "kvrelay/worker/v1/worker.grpc.pb.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/requests.h"
#include "tests/testing/certificates.h"
#include "tests/testing/tiny_model.h"

namespace kvrelay::e2e {
namespace {

using rpc::PeerRole;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kAlice[] = "alice-token-0123456789", kBob[] = "bob-token-0123456789";
constexpr char kPrompt[] = "The capital of France is";

using Credentials = std::shared_ptr<grpc::ChannelCredentials>;

// One prefill worker, two decode workers and a router that asks for tokens; certificates of one CA.
class SecureService {
 public:
  SecureService() {
    Write("ca.crt", ca_.cert_pem());
    Write("tokens", std::string("alice ") + kAlice + "\nbob " + kBob + "\n");
    for (const char* role : {"router", "prefill", "decode"}) {
      Renew(role, "first");
      const rpc::TlsFiles files = Files(role);
      std::vector<std::string> flags = {"--tls-cert", files.cert, "--tls-key",   files.key,
                                        "--tls-ca",   files.ca,   "--log-level", "debug"};
      if (role == std::string("router")) {
        flags.insert(flags.end(), {"--client-tokens", Path("tokens"), "--client-max-requests", "2"});
      }
      cluster.SetFlags(role, std::move(flags));
    }
    cluster.SetCredentials(WithToken(kAlice));
    started = cluster.StartAll(1, 2);
  }

  // A certificate of `role` with that common name, in place of the one it has.
  void Renew(const std::string& role, const std::string& name) {
    const auto pair = ca_.Issue({.name = name, .uris = {"spiffe://kvrelay/" + role}});
    Write(role + ".key", pair.key);
    Write(role + ".crt", pair.cert);
  }
  rpc::TlsFiles Files(const std::string& role) const {
    return {.cert = Path(role + ".crt"), .key = Path(role + ".key"), .ca = Path("ca.crt")};
  }
  std::string Path(const std::string& name) const { return cluster.directory() + "/" + name; }
  void Write(const std::string& name, const std::string& text) { testing::WriteFileAtOnce(Path(name), text); }

  // A client that trusts the CA, with the certificate of a file pair or none.
  static Credentials Client(const rpc::TlsFiles& files) {
    auto credentials = rpc::ClientCredentials(files);
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    return *std::move(credentials);
  }
  Credentials WithoutCertificate() const { return Client({.ca = Path("ca.crt")}); }
  Credentials WithToken(const std::string& token) const {
    return grpc::CompositeChannelCredentials(WithoutCertificate(), grpc::AccessTokenCredentials(token));
  }
  std::unique_ptr<v1::GenerationService::Stub> RouterStub(const Credentials& credentials) const {
    return v1::GenerationService::NewStub(rpc::NewChannel(cluster.address(), credentials));
  }

  Cluster cluster;
  absl::Status started;

 private:
  testing::TestCa ca_;
};

class SecurityTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { service_ = new SecureService; }
  static void TearDownTestSuite() { delete service_; }
  void SetUp() override { ASSERT_EQ(service().started, absl::OkStatus()) << cluster().Logs(); }

  static SecureService& service() { return *service_; }
  static Cluster& cluster() { return service_->cluster; }

 private:
  static SecureService* service_;
};
SecureService* SecurityTest::service_ = nullptr;

// How calls of all kinds end. Whoever is let in is told that the request makes no sense.
grpc::Status CallDecode(const std::string& address, const Credentials& credentials) {
  grpc::ClientContext context;
  auto stub = worker::v1::DecodeService::NewStub(rpc::NewChannel(address, credentials));
  auto stream = stub->Decode(&context);
  worker::v1::DecodeRequest request;
  request.mutable_reserve();
  stream->Write(request);
  worker::v1::DecodeResponse response;
  while (stream->Read(&response)) {
  }
  return stream->Finish();
}
grpc::Status CallPrefill(const std::string& address, const Credentials& credentials) {
  grpc::ClientContext context;
  auto stub = worker::v1::PrefillService::NewStub(rpc::NewChannel(address, credentials));
  auto stream = stub->Prefill(&context, {});
  worker::v1::PrefillResponse response;
  while (stream->Read(&response)) {
  }
  return stream->Finish();
}
grpc::Status CallWatch(const std::string& address, const Credentials& credentials) {
  grpc::ClientContext context;
  auto stub = worker::v1::WorkerService::NewStub(rpc::NewChannel(address, credentials));
  auto stream = stub->WatchStatus(&context, {});
  worker::v1::WatchStatusResponse response;
  if (stream->Read(&response)) context.TryCancel();
  return stream->Finish();
}
grpc::Status CallReceiveKv(const std::string& address, const Credentials& credentials) {
  grpc::ClientContext context;
  auto stub = worker::v1::KvService::NewStub(rpc::NewChannel(address, credentials));
  worker::v1::ReceiveKvResponse receipt;
  auto stream = stub->ReceiveKv(&context, &receipt);
  worker::v1::ReceiveKvRequest request;
  request.mutable_header()->set_handoff_id("nobody knows it");
  stream->Write(request);
  stream->WritesDone();
  return stream->Finish();
}
grpc::Status CallHealth(const std::string& address, const Credentials& credentials) {
  grpc::GenericStub stub(rpc::NewChannel(address, credentials));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const grpc::Slice no_service;
  auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::ByteBuffer(&no_service, 1), &queue);
  call->StartCall();
  grpc::Status status;
  grpc::ByteBuffer response;
  call->Finish(&response, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  return status;
}

TEST_F(SecurityTest, KvTravelsOverMutualTlsAndNothingSecretIsLogged) {
  v1::GenerateRequest request = TextRequest(kPrompt, 8);
  request.set_execution(v1::EXECUTION_SPLIT);
  ExpectSound(Generate(cluster().stub(), request));
  grpc::ClientContext context;
  context.AddMetadata("x-private", "hush-hush");
  context.AddMetadata("authorization", "Bearer wrong-token-0123456789");
  v1::GetStatusResponse status;
  EXPECT_EQ(service().RouterStub(service().WithoutCertificate())->GetStatus(&context, {}, &status).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  const std::string logs = cluster().Logs();
  EXPECT_THAT(logs, HasSubstr("client=alice"));
  for (const char* secret : {kAlice, kBob, "wrong-token", "hush-hush", "Paris", "PRIVATE KEY"}) {
    EXPECT_THAT(logs, Not(HasSubstr(secret)));
  }
}

TEST_F(SecurityTest, WorkersLetInOnlyTheRoleThatMayCall) {
  const std::string& decode = cluster().address("decode-1");
  const std::string& prefill = cluster().address("prefill-1");
  const auto as = [&](const char* role) { return service().Client(service().Files(role)); };
  const auto expect_denied = [](const grpc::Status& status, const char* role) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(role));
  };
  expect_denied(CallDecode(decode, as("prefill")), "role is prefill");
  expect_denied(CallDecode(decode, as("decode")), "role is decode");
  expect_denied(CallReceiveKv(decode, as("router")), "role is router");
  expect_denied(CallWatch(decode, as("prefill")), "role is prefill");
  expect_denied(CallPrefill(prefill, as("decode")), "role is decode");
  expect_denied(CallWatch(prefill, as("decode")), "role is decode");
  EXPECT_EQ(CallDecode(decode, as("router")).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(CallPrefill(prefill, as("router")).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(CallWatch(decode, as("router")).error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_NE(CallReceiveKv(decode, as("prefill")).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_NE(CallReceiveKv(decode, as("decode")).error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(SecurityTest, StrangersDoNotGetPastTheHandshake) {
  testing::TestCa other("other CA");
  const auto pair = other.Issue({.uris = {"spiffe://kvrelay/router"}});
  service().Write("foreign.key", pair.key);
  service().Write("foreign.crt", pair.cert);
  service().Write("other.crt", other.cert_pem());
  const Credentials foreign = service().Client(service().Files("foreign"));
  for (const char* worker : {"decode-1", "prefill-1"}) {
    SCOPED_TRACE(worker);
    const std::string& address = cluster().address(worker);
    for (const Credentials& outsider : {foreign, service().WithoutCertificate(), grpc::InsecureChannelCredentials()}) {
      EXPECT_EQ(CallWatch(address, outsider).error_code(), grpc::StatusCode::UNAVAILABLE);
      EXPECT_EQ(CallHealth(address, outsider).error_code(), grpc::StatusCode::UNAVAILABLE);
    }
  }
  for (const Credentials& outsider :
       {service().Client({.ca = service().Path("other.crt")}), grpc::InsecureChannelCredentials()}) {
    EXPECT_EQ(Generate(*service().RouterStub(outsider), TextRequest(kPrompt, 1)).status.error_code(),
              grpc::StatusCode::UNAVAILABLE);
  }
}

TEST_F(SecurityTest, ClientsNeedAValidToken) {
  const Stream none = Generate(*service().RouterStub(service().WithoutCertificate()), TextRequest(kPrompt, 1));
  const Stream bad =
      Generate(*service().RouterStub(service().WithToken("bad-token-0123456789")), TextRequest(kPrompt, 1));
  EXPECT_EQ(none.status.error_code(), grpc::StatusCode::UNAUTHENTICATED) << none.status.error_message();
  EXPECT_EQ(bad.status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(none.status.error_message(), bad.status.error_message());
  ExpectSound(Generate(*service().RouterStub(service().WithToken(kBob)), TextRequest(kPrompt, 1)));
  EXPECT_TRUE(CallHealth(cluster().address(), service().WithoutCertificate()).ok()) << "health needs no token";
}

TEST_F(SecurityTest, ANewTokenFileCountsSoon) {
  constexpr char kCarol[] = "carol-token-0123456789";
  const auto stub = service().RouterStub(service().WithToken(kCarol));
  const auto code = [&] { return Generate(*stub, TextRequest(kPrompt, 1)).status.error_code(); };
  EXPECT_EQ(code(), grpc::StatusCode::UNAUTHENTICATED);
  service().Write("tokens", std::string("alice ") + kAlice + "\nbob " + kBob + "\ncarol " + kCarol + "\n");
  EXPECT_TRUE(WaitUntil([&] { return code() == grpc::StatusCode::OK; }));
}

TEST_F(SecurityTest, QuotaOfAClient) {
  v1::GenerateRequest endless = TextRequest("Once upon a time", 4000);
  endless.set_ignore_eos(true);
  const auto stub = service().RouterStub(service().WithToken(kBob));
  grpc::ClientContext contexts[2];
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> readers[2];
  v1::GenerateResponse response;
  for (int i = 0; i < 2; ++i) {
    readers[i] = stub->Generate(&contexts[i], endless);
    ASSERT_TRUE(readers[i]->Read(&response));
  }
  const Stream third = Generate(*stub, TextRequest(kPrompt, 1));
  EXPECT_EQ(third.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << third.status.error_message();
  EXPECT_TRUE(rpc::RetryDelay(rpc::FromGrpc(third.status)).has_value());
  ExpectSound(Generate(cluster().stub(), TextRequest(kPrompt, 1)));  // alice
  for (int i = 0; i < 2; ++i) {
    contexts[i].TryCancel();
    EXPECT_EQ(readers[i]->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_TRUE(WaitUntil([&] { return Generate(*stub, TextRequest(kPrompt, 1)).status.ok(); }));
}

TEST_F(SecurityTest, TheClientProgram) {
  service().Write("token", std::string(kAlice) + "\n");
  const std::string log = service().Path("client.log");
  const auto run = [&](std::vector<std::string> flags) {
    std::filesystem::remove(log);
    flags.insert(flags.begin(),
                 {"status", "--address", "127.0.0.1:1," + cluster().address()});  // nobody is at the first
    const auto process = Process::Start("kvrelay", flags, log);
    EXPECT_TRUE(process.ok()) << process.status();
    const int exit = (*process)->Wait().value();
    return std::make_pair(exit, (*process)->Log());
  };
  const std::string ca = service().Path("ca.crt"), token = service().Path("token");
  const auto good = run({"--tls-ca", ca, "--token-file", token});
  EXPECT_EQ(good.first, 0) << good.second;
  EXPECT_THAT(good.second, HasSubstr("decode-1"));
  const auto no_token = run({"--tls-ca", ca});
  EXPECT_EQ(no_token.first, 1);
  EXPECT_THAT(no_token.second, HasSubstr("--token-file"));
  const auto plaintext = run({"--token-file", token});
  EXPECT_EQ(plaintext.first, 4);
  EXPECT_THAT(plaintext.second, HasSubstr("--tls-ca"));
  const auto missing = run({"--tls-ca", service().Path("missing")});
  EXPECT_EQ(missing.first, 2);
  EXPECT_THAT(missing.second, HasSubstr("No such file"));
}

TEST_F(SecurityTest, AStreamMovesBetweenDecodeWorkers) {
  v1::GenerateRequest request = TextRequest("Once upon a time", 200);
  request.set_ignore_eos(true);
  request.set_execution(v1::EXECUTION_SPLIT);
  std::string left;
  const Stream moved = Generate(cluster().stub(), request, [&](const Stream& stream) {
    if (stream.tokens.size() < 20 || !left.empty()) return;
    left = stream.started.placement().decode_instance();
    cluster().process(left).Signal(SIGTERM);
  });
  ExpectSound(moved);
  EXPECT_EQ(moved.finished.moves(), 1u);
  EXPECT_EQ(moved.finished.replans(), 0u);
  EXPECT_EQ(moved.positions.back().recomputed(), 0u);
  ExpectSameBits(moved, Generate(cluster().stub(), request));
  EXPECT_EQ(cluster().process(left).Wait().value(), 0);
  ASSERT_EQ(cluster().Restart(left), absl::OkStatus());
  ASSERT_EQ(cluster().WaitReady(), absl::OkStatus());
}

// Common name of the certificate that a new connection to the router is shown.
std::string ShownCertificate(v1::GenerationService::Stub& connection) {
  grpc::ClientContext context;
  v1::GetModelResponse response;
  const grpc::Status status = connection.GetModel(&context, {}, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  const auto names = context.auth_context()->FindPropertyValues("x509_common_name");
  return names.empty() ? "" : std::string(names[0].data(), names[0].size());
}

TEST_F(SecurityTest, CertificatesAreRenewedUnderARunningStream) {
  v1::GenerateRequest request = TextRequest("Once upon a time", 4000);
  request.set_ignore_eos(true);
  request.set_execution(v1::EXECUTION_SPLIT);
  grpc::ClientContext context;
  const auto reader = cluster().stub().Generate(&context, request);
  Stream stream;
  v1::GenerateResponse response;
  std::optional<size_t> renewed_at;
  while (reader->Read(&response) && (!renewed_at || stream.tokens.size() < *renewed_at + 20)) {
    if (!response.has_token()) continue;
    stream.tokens.push_back(response.token());
    stream.text += response.token().text();
    if (stream.tokens.size() == 3) {
      for (const char* role : {"router", "prefill", "decode"}) service().Renew(role, "second");
    }
    if (stream.tokens.size() > 3 && !renewed_at &&
        ShownCertificate(*service().RouterStub(service().WithToken(kBob))) == "second") {
      renewed_at = stream.tokens.size();
    }
  }
  ASSERT_TRUE(renewed_at.has_value()) << "the stream ended before a new connection saw the new certificate";
  EXPECT_EQ(stream.tokens.size(), *renewed_at + 20);
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);

  // The disturbed stream and one that began after it have the same bits; new connections of all kinds work.
  request.set_max_tokens(static_cast<uint32_t>(stream.tokens.size()));
  const Stream undisturbed = Generate(cluster().stub(), request);
  ExpectSound(undisturbed);
  EXPECT_EQ(stream.ids(), undisturbed.ids());
  EXPECT_EQ(CallWatch(cluster().address("decode-1"), service().Client(service().Files("router"))).error_code(),
            grpc::StatusCode::CANCELLED);
}

TEST(SecurityStartup, BadFilesEndTheStartWithTheReason) {
  Cluster cluster;
  testing::TestCa ca;
  const auto path = [&](const std::string& name) { return cluster.directory() + "/" + name; };
  const auto write = [&](const std::string& name, const std::string& text) {
    testing::WriteFileAtOnce(path(name), text);
    return path(name);
  };
  const std::string model = path("small.gguf");
  testing::WriteTinyModel({}, model);
  const auto decode = ca.Issue({.uris = {"spiffe://kvrelay/decode"}});
  const auto other = ca.Issue({.uris = {"spiffe://kvrelay/prefill"}});
  const std::string cert = write("cert", decode.cert), key = write("key", decode.key),
                    ca_file = write("ca", ca.cert_pem());
  struct Case {
    std::string cert, key, ca, message;
  };
  const Case cases[] = {{path("missing"), key, ca_file, "No such file"},
                        {cert, write("junk", "no key"), ca_file, "no private key"},
                        {write("nocert", "no certificate"), key, ca_file, "no certificate in PEM"},
                        {cert, write("otherkey", other.key), ca_file, "not the key of the certificate"},
                        {cert, key, path("junk"), "no certificate in PEM"},
                        {write("othercert", other.cert), path("otherkey"), ca_file, "spiffe://kvrelay/decode"}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.message);
    const auto process = Process::Start(
        "kvrelay-decode",
        {"--model", model, "--kv-pool-mib", "1", "--tls-cert", c.cert, "--tls-key", c.key, "--tls-ca", c.ca},
        path("log"));
    ASSERT_TRUE(process.ok()) << process.status();
    EXPECT_EQ((*process)->Wait().value(), 1) << (*process)->Log();
    EXPECT_THAT((*process)->Log(), HasSubstr(c.message));
    std::filesystem::remove(path("log"));
  }
}

}  // namespace
}  // namespace kvrelay::e2e
