#include "base/client_tls.h"

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include <boost/asio/ssl/error.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>

namespace sluice::base {
namespace {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* one) const noexcept {
    Free(one);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Session = std::unique_ptr<SSL, Freed<SSL_free>>;
using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using Bio = std::unique_ptr<BIO, Freed<BIO_free_all>>;

Key make_key() {
  const std::unique_ptr<EVP_PKEY_CTX, Freed<EVP_PKEY_CTX_free>> context(
      EVP_PKEY_CTX_new_id(EVP_PKEY_ED25519, nullptr));
  EVP_PKEY* key = nullptr;
  EVP_PKEY_keygen_init(context.get());
  if (EVP_PKEY_keygen(context.get(), &key) != 1) throw std::runtime_error("no key");
  return Key(key);
}

// A certificate that its own key has signed, for "DNS:host" or "IP:address".
Certificate make_certificate(EVP_PKEY& key, const std::string& name) {
  Certificate certificate(X509_new());
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), &key);
  const std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>> names(
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, name.c_str()));
  X509_add_ext(certificate.get(), names.get(), -1);
  if (X509_sign(certificate.get(), &key, nullptr) == 0) throw std::runtime_error("not signed");
  return certificate;
}

std::string text_of(BIO& bio) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(&bio, &text);
  return {text, static_cast<std::size_t>(size)};
}
std::string pem_of(X509& certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), &certificate);
  return text_of(*bio);
}
std::string pem_of(EVP_PKEY& key, std::string passphrase = {}) {
  const Bio bio(BIO_new(BIO_s_mem()));
  const EVP_CIPHER* const cipher = passphrase.empty() ? nullptr : EVP_aes_128_cbc();
  PEM_write_bio_PKCS8PrivateKey(bio.get(), &key, cipher, passphrase.data(),
                                static_cast<int>(passphrase.size()), nullptr, nullptr);
  return text_of(*bio);
}

class TlsTest : public ::testing::Test {
 protected:
  TlsTest() {
    if (mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("mkdtemp: " + folder_);
  }
  ~TlsTest() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& content) {
    std::ofstream(folder_ + "/" + name) << content;
    return folder_ + "/" + name;
  }
  std::string error_of(const ClientTls& options) {
    const auto made = make_tls(options);
    if (made) return "no error";
    std::string error = made.error();
    for (std::size_t at; (at = error.find(folder_)) != error.npos;) {
      error.erase(at, folder_.size() + 1);
    }
    return error;
  }

  const Key key_ = make_key();
  const Certificate certificate_ = make_certificate(*key_, "DNS:redis.example");

 private:
  std::string folder_ = ::testing::TempDir() + "sluice-tls-XXXXXX";
};

TEST_F(TlsTest, SpeaksTls12OrNewerAndVerifiesTheServer) {
  const auto context = make_tls({}).value();
  EXPECT_EQ(SSL_CTX_get_min_proto_version(context->native_handle()), TLS1_2_VERSION);
  EXPECT_EQ(SSL_CTX_get_verify_mode(context->native_handle()), SSL_VERIFY_PEER);
  const auto trusting = make_tls({.verify = false}).value();
  EXPECT_EQ(SSL_CTX_get_verify_mode(trusting->native_handle()), SSL_VERIFY_NONE);
}

TEST_F(TlsTest, ReportsAFileOfAuthoritiesThatHasNoCertificates) {
  for (const std::string& content : {std::string(), std::string("text"), pem_of(*key_)}) {
    EXPECT_EQ(error_of({.ca_file = file("ca.crt", content)}),
              "cannot use the authorities in 'ca.crt': expected certificates in PEM");
  }
}

TEST_F(TlsTest, ReportsACertificateThatCannotBeUsed) {
  const std::string key = file("key", pem_of(*key_));
  EXPECT_EQ(error_of({.cert_file = file("crt", pem_of(*key_)), .key_file = key}),
            "cannot use the certificate in 'crt': expected a certificate in PEM");
  std::string cut = pem_of(*certificate_);
  cut.resize(cut.size() / 2);
  EXPECT_EQ(error_of({.cert_file = file("crt", cut), .key_file = key}),
            "cannot use the certificate in 'crt': expected a certificate in PEM");
}

TEST_F(TlsTest, ReportsAKeyThatCannotBeUsed) {
  const std::string certificate = file("crt", pem_of(*certificate_));
  const auto error_with = [&](const std::string& content) {
    return error_of({.cert_file = certificate, .key_file = file("key", content)});
  };
  const std::string expected =
      "cannot use the key in 'key': expected a private key in PEM without a passphrase, which "
      "belongs to the certificate in 'crt'";
  EXPECT_EQ(error_with("text"), expected);
  EXPECT_EQ(error_with(pem_of(*make_key())), expected) << "the key of another certificate";
  EXPECT_EQ(error_with(pem_of(*key_, "passphrase")), expected) << "and OpenSSL asks nobody for it";
  EXPECT_EQ(error_with(pem_of(*key_)), "no error");
  EXPECT_EQ(error_of({.cert_file = certificate, .key_file = "/nowhere/key"}),
            "cannot use the key in '/nowhere/key': No such file or directory");
}

TEST_F(TlsTest, LeavesNoErrorInOpenSslsQueue) {
  const std::string certificate = file("crt", pem_of(*certificate_));
  ASSERT_TRUE(make_tls(
      {.ca_file = certificate, .cert_file = certificate, .key_file = file("key", pem_of(*key_))}));
  EXPECT_EQ(ERR_peek_error(), 0u);
}

// A handshake in memory: a client of make_tls(), and a server with one certificate.
class MemoryHandshake {
 public:
  MemoryHandshake(const ClientTls& options, X509& certificate, EVP_PKEY& key)
      : client_context_(make_tls(options).value()),
        server_context_(SSL_CTX_new(TLS_server_method())) {
    SSL_CTX_use_certificate(server_context_.get(), &certificate);
    SSL_CTX_use_PrivateKey(server_context_.get(), &key);
    client_.reset(SSL_new(client_context_->native_handle()));
    server_.reset(SSL_new(server_context_.get()));
    BIO* to_client = nullptr;
    BIO* to_server = nullptr;
    BIO_new_bio_pair(&to_client, 0, &to_server, 0);
    SSL_set_bio(client_.get(), to_server, to_server);
    SSL_set_bio(server_.get(), to_client, to_client);
    SSL_set_connect_state(client_.get());
    SSL_set_accept_state(server_.get());
  }

  SSL& client() noexcept { return *client_; }
  // Returns why_tls_failed(), or "accepted".
  std::string run() {
    for (int turn = 0; turn < 20; ++turn) {
      const int result = SSL_do_handshake(client_.get());
      if (result == 1) return "accepted";
      if (SSL_get_error(client_.get(), result) == SSL_ERROR_SSL) {
        ERR_clear_error();
        return why_tls_failed(*client_, boost::asio::ssl::error::stream_truncated);
      }
      SSL_do_handshake(server_.get());
    }
    return "no end";
  }
  // Returns the name that the server has received by SNI.
  std::string sent_name() const {
    const char* const name = SSL_get_servername(server_.get(), TLSEXT_NAMETYPE_host_name);
    return name == nullptr ? "" : name;
  }

 private:
  std::shared_ptr<boost::asio::ssl::context> client_context_;
  Context server_context_;
  Session client_;
  Session server_;
};

std::string refused(long verdict) {
  return std::string("TLS: the server's certificate is not accepted: ") +
         X509_verify_cert_error_string(verdict);
}

class TlsHandshakeTest : public TlsTest {
 protected:
  // Connects to `name` at a server whose trusted certificate is for `certified`.
  std::string connect(const std::string& certified, const std::string& name) {
    const Certificate certificate = make_certificate(*key_, certified);
    MemoryHandshake handshake({.ca_file = file("ca.crt", pem_of(*certificate))}, *certificate,
                              *key_);
    EXPECT_TRUE(expect_server(handshake.client(), name, true));
    std::string result = handshake.run();
    sent_name_ = handshake.sent_name();
    return result;
  }

  std::string sent_name_;
};

TEST_F(TlsHandshakeTest, AcceptsACertificateForTheNameAndSendsTheName) {
  EXPECT_EQ(connect("DNS:redis.example", "redis.example"), "accepted");
  EXPECT_EQ(sent_name_, "redis.example");
  EXPECT_EQ(connect("DNS:*.redis.example", "a.redis.example"), "accepted");
}

TEST_F(TlsHandshakeTest, AcceptsACertificateForTheAddressAndSendsNoName) {
  EXPECT_EQ(connect("IP:127.0.0.1", "127.0.0.1"), "accepted");
  EXPECT_EQ(sent_name_, "");
  EXPECT_EQ(connect("IP:::1", "::1"), "accepted");
}

TEST_F(TlsHandshakeTest, RefusesACertificateForAnotherNameOrAddress) {
  const std::string other_name = refused(X509_V_ERR_HOSTNAME_MISMATCH);
  EXPECT_EQ(connect("DNS:other.example", "redis.example"), other_name);
  EXPECT_EQ(connect("DNS:*.redis.example", "a.b.redis.example"), other_name);
  EXPECT_EQ(connect("DNS:r*.redis.example", "r1.redis.example"), other_name)
      << "a wildcard for a part";
  const std::string other_address = refused(X509_V_ERR_IP_ADDRESS_MISMATCH);
  EXPECT_EQ(connect("IP:127.0.0.2", "127.0.0.1"), other_address);
  EXPECT_EQ(connect("DNS:127.0.0.1", "127.0.0.1"), other_address) << "a name is not an address";
}

TEST_F(TlsHandshakeTest, RefusesACertificateOfAnUnknownAuthority) {
  const Key other_key = make_key();
  const Certificate other = make_certificate(*other_key, "DNS:redis.example");
  MemoryHandshake handshake({.ca_file = file("ca.crt", pem_of(*other))}, *certificate_, *key_);
  ASSERT_TRUE(expect_server(handshake.client(), "redis.example", true));
  EXPECT_TRUE(handshake.run().starts_with("TLS: the server's certificate is not accepted: "));
}

TEST_F(TlsHandshakeTest, AcceptsTheCertificateOfTheServerAloneIfItIsKnown) {
  const Key other_key = make_key();
  const Certificate other = make_certificate(*other_key, "DNS:redis.example");
  const std::string chain = file("chain.crt", pem_of(*certificate_) + pem_of(*other));
  EXPECT_EQ(MemoryHandshake({.server_file = chain}, *certificate_, *key_).run(), "accepted");
  EXPECT_NE(MemoryHandshake({.server_file = chain}, *other, *other_key).run(), "accepted");
  EXPECT_EQ(error_of({.server_file = file("empty.crt", "")}),
            "cannot use the certificate in 'empty.crt': expected a certificate in PEM");
}

TEST_F(TlsHandshakeTest, AcceptsAnyCertificateIfVerificationIsOff) {
  MemoryHandshake handshake({.verify = false}, *certificate_, *key_);
  ASSERT_TRUE(expect_server(handshake.client(), "other.example", false));
  EXPECT_EQ(handshake.run(), "accepted");
  EXPECT_EQ(handshake.sent_name(), "other.example");
}

TEST_F(TlsHandshakeTest, ReportsAnotherErrorIfTheCertificateIsNotTheReason) {
  MemoryHandshake handshake({.verify = false}, *certificate_, *key_);
  EXPECT_EQ(why_tls_failed(handshake.client(), boost::asio::ssl::error::stream_truncated),
            "TLS: stream truncated");
}

TEST_F(TlsHandshakeTest, DoesNotExpectAServerWithANameThatIsTooLong) {
  MemoryHandshake handshake({.verify = false}, *certificate_, *key_);
  EXPECT_FALSE(expect_server(handshake.client(), std::string(256, 'a'), false));
}

}  // namespace
}  // namespace sluice::base
