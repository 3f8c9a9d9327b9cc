#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <string>

namespace sluice::server::net {

// A self-signed certificate and its key.
class TestCertificate {
 public:
  // `names` as in OpenSSL's configuration: "DNS:a.internal,URI:spiffe://a"; may be empty.
  explicit TestCertificate(const char* names, const char* common_name = "test") {
    ::X509_set_version(certificate_.get(), 2);
    ::ASN1_INTEGER_set(::X509_get_serialNumber(certificate_.get()), 1);
    ::X509_gmtime_adj(::X509_getm_notBefore(certificate_.get()), -60);
    ::X509_gmtime_adj(::X509_getm_notAfter(certificate_.get()), 3600);
    X509_NAME* const subject = ::X509_get_subject_name(certificate_.get());
    ::X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(common_name), -1, -1, 0);
    ::X509_set_issuer_name(certificate_.get(), subject);
    if (*names != '\0') add_names(names);
    ::X509_set_pubkey(certificate_.get(), key_.get());
    ::X509_sign(certificate_.get(), key_.get(), ::EVP_sha256());
  }

  const X509& certificate() const { return *certificate_; }
  void write_to(const std::string& cert_file, const std::string& key_file) const {
    const File cert(std::fopen(cert_file.c_str(), "w"), std::fclose);
    ::PEM_write_X509(cert.get(), certificate_.get());
    const File key(std::fopen(key_file.c_str(), "w"), std::fclose);
    ::PEM_write_PrivateKey(key.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr);
  }

 private:
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

  void add_names(const char* names) {
    const std::unique_ptr<X509_EXTENSION, void (*)(X509_EXTENSION*)> extension(
        ::X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names),
        ::X509_EXTENSION_free);
    ::X509_add_ext(certificate_.get(), extension.get(), -1);
  }

  std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key_{EVP_EC_gen("P-256"), ::EVP_PKEY_free};
  std::unique_ptr<X509, void (*)(X509*)> certificate_{::X509_new(), ::X509_free};
};

}  // namespace sluice::server::net
