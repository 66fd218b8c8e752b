#include "daemon/rpc/tls.h"

#include <grpc/grpc_security.h>

#include "base/log.h"

static const int64_t warn_before_ms = INT64_C(14) * 24 * 3600 * 1000;

struct tls {
    struct tls_config config;
    pthread_mutex_t lock; /* everything below */
    struct certificate_pair pair;
    char *roots;                  /* names of CAs that clients are told; NULL: the certificate, since gRPC insists on some */
    uint64_t generation, fetched; /* of pair and roots, and as gRPC has them */
};

/* An expired certificate is used all the same: the unix socket and jobs go on, and clients say clearly what is wrong. */
static void announce_end(const struct tls *t, int64_t until_ms) {
    char day[32];
    int64_t left = until_ms - clock_wall_ms();
    metric_set(metrics_series(t->config.metrics, "brrd_tls_certificate_expiry_timestamp_seconds", ""), (double)until_ms / 1000);
    if (!*clock_utc(until_ms, "%Y-%m-%d", day, sizeof day))
        str_copy(day, sizeof day, "?");
    if (left <= 0)
        log_error("the daemon's certificate has expired: clients refuse it", "file=\"%s\" expired=%s fix=\"brrctl tls renew DIR\"",
                  t->config.cert, day);
    else if (left < warn_before_ms)
        log_warn("the daemon's certificate expires soon", "file=\"%s\" expires=%s fix=\"brrctl tls renew DIR\"", t->config.cert,
                 day);
}

int tls_set_pair(struct tls *t, const char *certificate, const char *key, struct err *err) {
    int64_t until_ms = 0;
    int rc = certificate_check_pair(certificate, key, &until_ms, err);
    if (rc)
        return err_wrap(err, "tls.cert %s and tls.key %s cannot be used", t->config.cert, t->config.key);
    struct certificate_pair pair = {strdup(certificate), strdup(key)}, old;
    if (!pair.certificate || !pair.key) {
        certificate_pair_done(&pair);
        return err_set(err, ERR_EXHAUSTED, "out of memory for the daemon's certificate");
    }
    pthread_mutex_lock(&t->lock);
    old = t->pair;
    t->pair = pair;
    t->generation++;
    pthread_mutex_unlock(&t->lock);
    certificate_pair_done(&old);
    announce_end(t, until_ms);
    if (certificate_lacks_issuer(certificate))
        log_warn("clients may not trust the daemon's certificate: its file lacks the intermediate certificate",
                 "file=\"%s\" fix=\"%s\"", t->config.cert, "append the CA's intermediate certificates to tls.cert");
    return 0;
}

int tls_set_roots(struct tls *t, const char *pem, struct err *err) {
    char *roots = strdup(pem), *old;
    if (!roots)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the CAs of client certificates");
    pthread_mutex_lock(&t->lock);
    old = t->roots;
    t->roots = roots;
    t->generation++;
    pthread_mutex_unlock(&t->lock);
    free(old);
    return 0;
}

int tls_new(const struct tls_config *config, struct tls **ret, struct err *err) {
    struct tls *t = calloc(1, sizeof *t);
    if (!t)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the daemon's certificate");
    t->config = *config;
    pthread_mutex_init(&t->lock, NULL);
    *ret = t;
    return 0;
}

void tls_free(struct tls *t) {
    if (!t)
        return;
    certificate_pair_done(&t->pair);
    free(t->roots);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

int tls_pair(struct tls *t, struct certificate_pair *ret, struct err *err) {
    pthread_mutex_lock(&t->lock);
    struct certificate_pair copy = {strdup(t->pair.certificate), strdup(t->pair.key)};
    pthread_mutex_unlock(&t->lock);
    if (!copy.certificate || !copy.key) {
        certificate_pair_done(&copy);
        return err_set(err, ERR_EXHAUSTED, "out of memory for the daemon's certificate");
    }
    *ret = copy;
    return 0;
}

/* gRPC asks at every handshake. It verifies no client: that is done call by call (rpc/auth.h), so that a refusal has a reason. */
static grpc_ssl_certificate_config_reload_status fetch(void *ctx, grpc_ssl_server_certificate_config **ret) {
    struct tls *t = ctx;
    LOCKED(&t->lock);
    bool fresh = t->fetched != t->generation;
    if (fresh) {
        grpc_ssl_pem_key_cert_pair pair = {t->pair.key, t->pair.certificate};
        *ret = grpc_ssl_server_certificate_config_create(t->roots ? t->roots : t->pair.certificate, &pair, 1);
        t->fetched = t->generation;
    }
    return fresh ? GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW : GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
}

struct grpc_server_credentials *tls_credentials(struct tls *t) {
    return grpc_ssl_server_credentials_create_with_options(grpc_ssl_server_credentials_create_options_using_config_fetcher(
        t->config.client_ca ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE, fetch,
        t));
}
