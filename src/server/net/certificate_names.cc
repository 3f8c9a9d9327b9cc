#include "server/net/certificate_names.h"

#include <openssl/asn1.h>
#include <openssl/x509v3.h>

#include <memory>

namespace sluice::server::net {
namespace {

void add(std::vector<std::string>& names, std::string name) {
  if (!name.empty() && name.find('\0') == name.npos) names.push_back(std::move(name));
}

std::string text_of(const ASN1_STRING* string) {
  return {reinterpret_cast<const char*>(::ASN1_STRING_get0_data(string)),
          static_cast<std::size_t>(::ASN1_STRING_length(string))};
}

std::string in_lower_case(std::string name) {
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return name;
}

void add_alternative_names(std::vector<std::string>& names, const X509& certificate) {
  const std::unique_ptr<GENERAL_NAMES, void (*)(GENERAL_NAMES*)> all(
      static_cast<GENERAL_NAMES*>(
          ::X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)),
      ::GENERAL_NAMES_free);
  for (int i = 0; i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME* const one = sk_GENERAL_NAME_value(all.get(), i);
    if (one->type == GEN_DNS) add(names, in_lower_case(text_of(one->d.dNSName)));
    if (one->type == GEN_URI) add(names, text_of(one->d.uniformResourceIdentifier));
  }
}

void add_common_name(std::vector<std::string>& names, const X509& certificate) {
  const X509_NAME* const subject = ::X509_get_subject_name(&certificate);
  const int at = ::X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0) return;
  unsigned char* text = nullptr;
  const int size =
      ::ASN1_STRING_to_UTF8(&text, ::X509_NAME_ENTRY_get_data(::X509_NAME_get_entry(subject, at)));
  if (size < 0) return;
  add(names, {reinterpret_cast<const char*>(text), static_cast<std::size_t>(size)});
  ::OPENSSL_free(text);
}

}  // namespace

std::vector<std::string> names_of(const X509& certificate) {
  std::vector<std::string> names;
  add_alternative_names(names, certificate);
  if (names.empty()) add_common_name(names, certificate);
  return names;
}

}  // namespace sluice::server::net
