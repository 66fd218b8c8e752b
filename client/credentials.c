#include "client/credentials.h"

#include "trust/certificate.h"

enum { PEM_MAX = 1 << 20, TOKEN_MAX = 4096, SECRET_FORBIDDEN = 0077 };

/* The option, else the environment's value; NULL for an empty one. */
static const char *choose(const char *option, const char *environment) {
    const char *value = option ? option : environment;
    return value && *value ? value : NULL;
}

static int read_text(const char *path, unsigned forbidden, char **ret, struct err *err) {
    size_t len;
    int rc = fsio_check_mode(path, forbidden, err);
    return rc ? rc : fsio_read(path, PEM_MAX, ret, &len, err);
}

static void wipe(char *text) {
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

/* One token, blanks around it ignored. */
static int read_token(const char *path, char **ret, struct err *err) {
    char *text = NULL;
    int rc = read_text(path, SECRET_FORBIDDEN, &text, err);
    if (rc)
        return rc;
    char *begin = text + strspn(text, " \t\r\n");
    size_t len = strcspn(begin, " \t\r\n");
    bool fine = len > 0 && len < TOKEN_MAX && !begin[len + strspn(begin + len, " \t\r\n")];
    for (size_t i = 0; i < len && fine; i++)
        fine = isgraph((unsigned char)begin[i]);
    begin[len] = '\0';
    size_t size = len + sizeof "Bearer ";
    char *bearer = fine ? malloc(size) : NULL;
    if (bearer)
        str_format(bearer, size, "Bearer %s", begin);
    wipe(text);
    if (!fine)
        return err_set(err, ERR_PRECONDITION, "%s contains no token; expected one word of printable characters", path);
    if (!bearer)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a token");
    *ret = bearer;
    return 0;
}

static bool this_machine(const char *endpoint) { return str_starts(endpoint, "unix:") || str_is_loopback(endpoint); }

/* An expired certificate passes: the daemon says so, with the reason. */
static int check_pair(const char *cert, const char *key, const struct credentials *c, struct err *err) {
    int64_t until_ms;
    int rc = certificate_check_pair(c->certificate, c->key, &until_ms, err);
    if (rc == ERR_PRECONDITION)
        return err_set(err, rc, "--tls-key %s does not belong to --tls-cert %s", key, cert);
    if (rc)
        err_wrap(err, "--tls-cert %s and --tls-key %s cannot be used", cert, key);
    return rc ? (err->code = ERR_PRECONDITION) : 0; /* a fault of a file, not of the options */
}

/* Paths; NULL = not given. cert and key come together. */
struct credential_files {
    const char *ca, *cert, *key, *token;
};

/* Each file that the call needs; what was read stays in *c when a later one fails. */
static int read_files(const struct credential_files *f, struct credentials *c, struct err *err) {
    int rc;
    if (f->ca && (rc = read_text(f->ca, 0, &c->ca, err)))
        return rc;
    if (f->ca && !strstr(c->ca, "-----BEGIN "))
        return err_set(err, ERR_PRECONDITION, "%s holds no certificate in PEM; expected the CA of the daemon (ca.crt)", f->ca);
    if (f->cert && ((rc = read_text(f->cert, 0, &c->certificate, err)) ||
                    (rc = read_text(f->key, SECRET_FORBIDDEN, &c->key, err)) || (rc = check_pair(f->cert, f->key, c, err))))
        return rc;
    return f->token ? read_token(f->token, &c->bearer, err) : 0;
}

int credentials_read(const struct brr_connect_options *o, const char *endpoint, struct credentials *ret, struct err *err) {
    const bool local = str_starts(endpoint, "unix:");
    const struct credential_files f = {.ca = local ? NULL : choose(o->tls_ca, getenv("BRR_TLS_CA")),
                                       .cert = local ? NULL : choose(o->tls_cert, getenv("BRR_TLS_CERT")),
                                       .key = local ? NULL : choose(o->tls_key, getenv("BRR_TLS_KEY")),
                                       .token = choose(o->token_file, getenv("BRR_TOKEN_FILE"))};
    struct credentials c = {0};
    if (!f.cert != !f.key)
        return err_set(err, ERR_INVALID, "a client certificate needs both --tls-cert (BRR_TLS_CERT) and --tls-key (BRR_TLS_KEY)");
    if (f.cert && !f.ca)
        return err_set(err, ERR_INVALID, "a client certificate needs TLS: pass the daemon's CA with --tls-ca (BRR_TLS_CA)");
    if (f.token && !f.ca && !this_machine(endpoint))
        return err_set(err, ERR_INVALID,
                       "the token would be sent to %s unencrypted; pass the daemon's CA with --tls-ca (BRR_TLS_CA)", endpoint);
    int rc = read_files(&f, &c, err);
    if (rc)
        credentials_done(&c);
    else
        *ret = c;
    return rc;
}

void credentials_done(struct credentials *c) {
    FREE_MEMBERS(*c, ca, certificate);
    wipe(c->key);
    wipe(c->bearer);
    *c = (struct credentials){0};
}
