#include "trust/certificate.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

enum { SERIAL_BITS = 159, MAX_CHAIN = 8, SKEW_S = 3600, DAY_S = 24 * 3600 };

struct authorities {
    X509_STORE *store;
};

OWNABLE(X509, X509_free)
OWNABLE(EVP_PKEY, EVP_PKEY_free)

static int failed(struct err *err, const char *what) {
    char why[160];
    unsigned long code = ERR_get_error();
    ERR_error_string_n(code, why, sizeof why);
    ERR_clear_error();
    return err_set(err, ERR_INTERNAL, "OpenSSL cannot make %s%s%s", what, code ? ": " : "", code ? why : "");
}

void certificate_pair_done(struct certificate_pair *pair) {
    free(pair->certificate);
    if (pair->key)
        OPENSSL_cleanse(pair->key, strlen(pair->key));
    free(pair->key);
    *pair = (struct certificate_pair){0};
}

/* ---- PEM ---- */

static BIO *reader(const char *pem, size_t len) { return BIO_new_mem_buf(pem, (int)len); }

/* A key with a passphrase is unreadable; nobody is asked for one. */
static int no_passphrase(char *buf, int size, int writing, void *ctx) {
    (void)buf, (void)size, (void)writing, (void)ctx;
    return -1;
}

static X509 *read_certificate(const char *pem) {
    BIO *bio = reader(pem, strlen(pem));
    X509 *x = bio ? PEM_read_bio_X509(bio, NULL, no_passphrase, NULL) : NULL;
    BIO_free(bio);
    ERR_clear_error();
    return x;
}

static EVP_PKEY *read_key(const char *pem) {
    BIO *bio = reader(pem, strlen(pem));
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL) : NULL;
    BIO_free(bio);
    ERR_clear_error();
    return key;
}

/* The text that was written to a BIO of memory, malloc'd; the BIO's own copy is overwritten. */
static char *text_of(BIO *bio) {
    char *data = NULL;
    long len = BIO_get_mem_data(bio, &data);
    char *text = len > 0 ? malloc((size_t)len + 1) : NULL;
    if (text) {
        memcpy(text, data, (size_t)len);
        text[len] = '\0';
        OPENSSL_cleanse(data, (size_t)len);
    }
    return text;
}

static int write_pair(X509 *x, EVP_PKEY *key, struct certificate_pair *ret, struct err *err) {
    BIO *a = BIO_new(BIO_s_mem()), *b = BIO_new(BIO_s_mem());
    struct certificate_pair pair = {0};
    bool ok = a && b && PEM_write_bio_X509(a, x) == 1 && PEM_write_bio_PKCS8PrivateKey(b, key, NULL, NULL, 0, NULL, NULL) == 1;
    if (ok) {
        pair = (struct certificate_pair){text_of(a), text_of(b)};
        ok = pair.certificate && pair.key;
    }
    BIO_free(a);
    BIO_free(b);
    if (!ok) {
        certificate_pair_done(&pair);
        return failed(err, "the text of a certificate");
    }
    *ret = pair;
    return 0;
}

/* ---- making ---- */

static bool add_extension(X509 *x, X509 *issuer, int nid, const char *value) {
    X509V3_CTX ctx;
    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool ok = e && X509_add_ext(x, e, -1) == 1;
    X509_EXTENSION_free(e);
    return ok;
}

static bool set_serial(X509 *x) {
    BIGNUM *n = BN_new();
    bool ok =
        n && BN_rand(n, SERIAL_BITS, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));
    BN_free(n);
    return ok;
}

/* Everything but extensions and signature. */
static bool fill(X509 *x, const char *name, EVP_PKEY *key, int days) {
    X509_NAME *subject = X509_get_subject_name(x);
    long end = (long)days * DAY_S, begin = end < 0 ? end - DAY_S : -SKEW_S;
    return X509_set_version(x, X509_VERSION_3) == 1 && set_serial(x) && X509_gmtime_adj(X509_getm_notBefore(x), begin) &&
           X509_gmtime_adj(X509_getm_notAfter(x), end) && X509_set_pubkey(x, key) == 1 &&
           X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)name, -1, -1, 0) == 1;
}

int certificate_make_authority(const char *name, struct certificate_pair *ret, struct err *err) {
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    bool ok = key && x && fill(x, name, key, CERTIFICATE_CA_DAYS) && X509_set_issuer_name(x, X509_get_subject_name(x)) == 1 &&
              add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
              add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
              add_extension(x, x, NID_subject_key_identifier, "hash") && X509_sign(x, key, EVP_sha256()) > 0;
    int rc = ok ? write_pair(x, key, ret, err) : failed(err, "a certificate authority");
    X509_free(x);
    EVP_PKEY_free(key);
    return rc;
}

static bool is_address(const char *host) {
    unsigned char bytes[16];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

static bool is_name(const char *host) {
    size_t len = strlen(host);
    for (const char *p = host; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("-._", *p) && !(p == host && *p == '*' && p[1] == '.'))
            return false;
    return len > 0 && len < 254 && host[0] != '.' && host[0] != '-';
}

/* "DNS:a,IP:127.0.0.1" */
static int alternative_names(const struct certificate_request *r, struct str *ret, struct err *err) {
    if (r->n_hosts > CERTIFICATE_MAX_HOSTS)
        return err_set(err, ERR_INVALID, "%zu hosts in one certificate; at most %d", r->n_hosts, CERTIFICATE_MAX_HOSTS);
    for (size_t i = 0; i < r->n_hosts; i++) {
        bool address = is_address(r->hosts[i]);
        if (!address && !is_name(r->hosts[i]))
            return err_set(err, ERR_INVALID, "'%.100s' is neither a host's name nor an address; give it without scheme and port",
                           r->hosts[i]);
        str_printf(ret, "%s%s:%s", i ? "," : "", address ? "IP" : "DNS", r->hosts[i]);
    }
    return str_ok(ret) ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for the hosts of a certificate");
}

static bool issue(X509 *x, X509 *ca, EVP_PKEY *ca_key, const char *names) {
    return X509_set_issuer_name(x, X509_get_subject_name(ca)) == 1 &&
           add_extension(x, ca, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(x, ca, NID_key_usage, "critical,digitalSignature") &&
           add_extension(x, ca, NID_ext_key_usage, *names ? "serverAuth" : "clientAuth") &&
           add_extension(x, ca, NID_subject_key_identifier, "hash") &&
           add_extension(x, ca, NID_authority_key_identifier, "keyid") &&
           (!*names || add_extension(x, ca, NID_subject_alt_name, names)) && X509_sign(x, ca_key, EVP_sha256()) > 0;
}

int certificate_issue(const struct certificate_pair *authority, const struct certificate_request *r, struct certificate_pair *ret,
                      struct err *err) {
    OWNED(str_done) struct str names = str_of(32 * 1024);
    OWNED_POINTER(X509_free) X509 *ca = read_certificate(authority->certificate);
    OWNED_POINTER(X509_free) X509 *x = X509_new();
    OWNED_POINTER(EVP_PKEY_free) EVP_PKEY *ca_key = read_key(authority->key);
    OWNED_POINTER(EVP_PKEY_free) EVP_PKEY *key = EVP_EC_gen("P-256");
    int rc = alternative_names(r, &names, err);
    if (rc)
        return rc;
    if (!ca || !ca_key || X509_check_private_key(ca, ca_key) != 1)
        return err_set(err, ERR_INVALID, "the CA's certificate and key cannot be read or do not belong together");
    if (!x || !key || !fill(x, r->name, key, r->days) || !issue(x, ca, ca_key, str_cstr(&names)))
        return failed(err, "a certificate");
    return write_pair(x, key, ret, err);
}

static void add_host(const GENERAL_NAME *name, struct str *ret) {
    char text[INET6_ADDRSTRLEN];
    const ASN1_STRING *value = name->d.ia5;
    int len = ASN1_STRING_length(value);
    if (name->type == GEN_DNS)
        str_append(ret, (const char *)ASN1_STRING_get0_data(value), (size_t)len);
    else if (inet_ntop(len == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(value), text, sizeof text))
        str_puts(ret, text);
    str_puts(ret, "\n");
}

int certificate_hosts(const char *certificate, struct str *ret, struct err *err) {
    OWNED_POINTER(X509_free) X509 *x = read_certificate(certificate);
    if (!x)
        return err_set(err, ERR_INVALID, "there is no X.509 certificate in PEM in it");
    GENERAL_NAMES *names = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
    int n = 0;
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        int len = name->type == GEN_IPADD ? ASN1_STRING_length(name->d.iPAddress) : 0;
        if ((name->type == GEN_DNS || len == 4 || len == 16) && ++n <= CERTIFICATE_MAX_HOSTS)
            add_host(name, ret);
    }
    GENERAL_NAMES_free(names);
    if (n < 1 || n > CERTIFICATE_MAX_HOSTS)
        return err_set(err, ERR_NOT_FOUND, "the certificate names %d hosts; expected 1 to %d", n, CERTIFICATE_MAX_HOSTS);
    return str_ok(ret) ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for the hosts of a certificate");
}

/* ---- checking ---- */

enum { LEAST_RSA_BITS = 2048 };

bool certificate_lacks_issuer(const char *certificate) {
    BIO *bio = reader(certificate, strlen(certificate));
    X509 *first = bio ? PEM_read_bio_X509(bio, NULL, no_passphrase, NULL) : NULL;
    X509 *second = first ? PEM_read_bio_X509(bio, NULL, no_passphrase, NULL) : NULL;
    const bool lacks =
        first && !second && X509_check_issued(first, first) != X509_V_OK && X509_get_ext_by_NID(first, NID_info_access, -1) >= 0;
    ERR_clear_error();
    X509_free(first);
    X509_free(second);
    BIO_free(bio);
    return lacks;
}

int certificate_check_pair(const char *certificate, const char *key, int64_t *ret_until_ms, struct err *err) {
    X509 *x = read_certificate(certificate);
    EVP_PKEY *k = read_key(key);
    struct tm end = {0};
    int rc = 0;
    if (!x)
        rc = err_set(err, ERR_INVALID, "the certificate is no PEM text that begins with an X.509 certificate");
    else if (!k)
        rc = err_set(err, ERR_INVALID, "the key is no PEM text of a private key without passphrase");
    else if (EVP_PKEY_base_id(k) == EVP_PKEY_RSA && EVP_PKEY_bits(k) < LEAST_RSA_BITS)
        rc =
            err_set(err, ERR_INVALID, "the key is an RSA key of %d bits, which TLS refuses; make one of at least %d, or of a curve",
                    EVP_PKEY_bits(k), LEAST_RSA_BITS);
    else if (X509_check_private_key(x, k) != 1)
        rc = err_set(err, ERR_PRECONDITION, "the key does not belong to the certificate");
    else if (ASN1_TIME_to_tm(X509_get0_notAfter(x), &end) != 1)
        rc = err_set(err, ERR_INVALID, "the certificate does not say when it expires");
    if (!rc)
        *ret_until_ms = (int64_t)timegm(&end) * 1000;
    ERR_clear_error();
    X509_free(x);
    EVP_PKEY_free(k);
    return rc;
}

int authorities_read(const char *pem, struct authorities **ret, struct err *err) {
    struct authorities *a = calloc(1, sizeof *a);
    BIO *bio = reader(pem, strlen(pem));
    int n = 0;
    if (a)
        a->store = X509_STORE_new();
    if (!a || !bio || !a->store) {
        BIO_free(bio);
        authorities_free(a);
        return err_set(err, ERR_EXHAUSTED, "out of memory for the CAs of clients");
    }
    X509_STORE_set_flags(a->store, X509_V_FLAG_PARTIAL_CHAIN); /* any listed certificate is an anchor */
    for (X509 *x; (x = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL)); X509_free(x))
        n += X509_STORE_add_cert(a->store, x) == 1;
    BIO_free(bio);
    ERR_clear_error();
    if (!n) {
        authorities_free(a);
        return err_set(err, ERR_INVALID, "there is no X.509 certificate in PEM in it");
    }
    *ret = a;
    return 0;
}

void authorities_free(struct authorities *a) {
    if (!a)
        return;
    X509_STORE_free(a->store);
    free(a);
}

/* The first certificate and those behind it, at most MAX_CHAIN in all. */
static X509 *read_chain(const char *pem, size_t len, STACK_OF(X509) * others) {
    BIO *bio = reader(pem, len);
    X509 *leaf = bio ? PEM_read_bio_X509(bio, NULL, no_passphrase, NULL) : NULL, *x = NULL;
    for (int n = 1; leaf && n < MAX_CHAIN && (x = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL)); n++)
        if (sk_X509_push(others, x) <= 0)
            X509_free(x);
    BIO_free(bio);
    ERR_clear_error();
    return leaf;
}

static enum certificate_result judge(int code) {
    switch (code) {
    case X509_V_OK:
        return CERTIFICATE_VALID;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return CERTIFICATE_EXPIRED;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        return CERTIFICATE_FOREIGN_CA;
    default:
        return CERTIFICATE_INVALID;
    }
}

enum certificate_result authorities_verify(const struct authorities *a, const char *chain, size_t len,
                                           char ret_name[CERTIFICATE_NAME_SIZE], const char **ret_why) {
    STACK_OF(X509) *others = sk_X509_new_null();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    X509 *leaf = others ? read_chain(chain, len, others) : NULL;
    enum certificate_result result = CERTIFICATE_INVALID;
    ret_name[0] = '\0';
    *ret_why = "the certificate cannot be read";
    if (leaf && ctx && X509_STORE_CTX_init(ctx, a->store, leaf, others) == 1 &&
        X509_STORE_CTX_set_purpose(ctx, X509_PURPOSE_SSL_CLIENT) == 1) {
        X509_NAME_get_text_by_NID(X509_get_subject_name(leaf), NID_commonName, ret_name, CERTIFICATE_NAME_SIZE);
        bool ok = X509_verify_cert(ctx) == 1;
        int code = X509_STORE_CTX_get_error(ctx);
        result = judge(ok ? X509_V_OK : code == X509_V_OK ? X509_V_ERR_UNSPECIFIED : code);
        *ret_why = X509_verify_cert_error_string(code);
    }
    X509_STORE_CTX_free(ctx);
    X509_free(leaf);
    sk_X509_pop_free(others, X509_free);
    ERR_clear_error();
    return result;
}
