#include "store/s3_imds.h"

#include "base/json.h"
#include "store/fetch.h"

#define ADDRESS "http://169.254.169.254"
#define ROLES   "/latest/meta-data/iam/security-credentials/"

enum { TIMEOUT_MS = 1000, PAUSE_MS = 100, TURN_MS = 100, ANSWER_MAX = 16 << 10, SESSION_S = 21600 };

struct session {
    struct fetch *fetch;
    const char *address;
    int tries;
    char header[2048]; /* with the session's token */
    struct fetch_request request;
    char answer[ANSWER_MAX + 1];
};

/* One request to its end, more often where nobody answers or the service is overloaded. Answer and status are in the session. */
static int ask(struct session *s, const char *method, const char *path, const char *header, struct err *err) {
    char url[1024];
    uint64_t seen = 0;
    static const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    if (!str_format(url, sizeof url, "%s%s", s->address, path))
        return err_set(err, ERR_RANGE, "AWS_EC2_METADATA_SERVICE_ENDPOINT is too long");
    for (int i = 0; i < s->tries; i++) {
        if (i)
            nanosleep(&pause, NULL);
        s->request = (struct fetch_request){.method = method,
                                            .url = url,
                                            .headers = {header},
                                            .n_headers = 1,
                                            .timeout_ms = TIMEOUT_MS,
                                            .stall_s = TIMEOUT_MS / 1000,
                                            .direct = true,
                                            .sink = {.buf = s->answer, .cap = ANSWER_MAX}};
        fetch_start(s->fetch, &s->request);
        while (!fetch_done(s->fetch, &s->request))
            fetch_wait(s->fetch, &seen, TURN_MS);
        if (!s->request.failure && s->request.status < 500)
            break;
    }
    s->answer[s->request.sink.got] = '\0';
    if (s->request.failure)
        return err_set(err, ERR_UNAUTHENTICATED,
                       "no metadata service answers at %s (%s); is this a virtual machine with a role? (in a container, the host "
                       "must allow a hop limit of 2)",
                       s->address, s->request.failure_text);
    if (s->request.status == 200)
        return 0;
    return err_set(err, ERR_UNAUTHENTICATED, "the metadata service at %s answers HTTP %d to %s%s", s->address, s->request.status,
                   path, s->request.status == 404 ? "; give the virtual machine a role that may read the bucket" : "");
}

static bool take(const struct json *j, const char *key, char *buf, size_t size) {
    const char *text = json_str(json_get(j, key), "");
    return *text && str_copy(buf, size, text);
}

static int read_answer(const struct session *s, struct s3_credentials *ret, struct err *err) {
    struct json *j = NULL;
    struct tm tm = {0};
    char expires[64];
    struct s3_credentials got = {.remote = true};
    int rc = json_parse(s->answer, strlen(s->answer), "the metadata service's answer", &j, err);
    if (rc)
        return err_wrap(err, "credentials of the role cannot be read");
    if (!take(j, "AccessKeyId", got.id, sizeof got.id) || !take(j, "SecretAccessKey", got.secret, sizeof got.secret) ||
        !take(j, "Token", got.token, sizeof got.token) || !take(j, "Expiration", expires, sizeof expires) ||
        !strptime(expires, "%Y-%m-%dT%H:%M:%S", &tm))
        rc = err_set(err, ERR_DATA_LOSS,
                     "the metadata service at %s: expected AccessKeyId, SecretAccessKey, Token and Expiration (Code is '%.40s')",
                     s->address, json_str(json_get(j, "Code"), "absent"));
    json_free(j);
    if (rc)
        return rc;
    got.expires_s = (int64_t)timegm(&tm);
    *ret = got;
    return 0;
}

/* Token of a session, name of the role, its credentials. */
static int talk(struct session *s, struct s3_credentials *ret, struct err *err) {
    char path[512], life[64];
    str_format(life, sizeof life, "X-aws-ec2-metadata-token-ttl-seconds: %d", SESSION_S);
    int rc;
    if ((rc = ask(s, "PUT", "/latest/api/token", life, err)) ||
        ((strpbrk(s->answer, "\r\n") || !str_format(s->header, sizeof s->header, "X-aws-ec2-metadata-token: %s", s->answer)) &&
         (rc = err_set(err, ERR_DATA_LOSS, "the metadata service at %s gave no session token that can be used", s->address))) ||
        (rc = ask(s, "GET", ROLES, s->header, err)))
        return rc;
    s->answer[strcspn(s->answer, "\r\n")] = '\0'; /* the first of them; there is one */
    if (!*s->answer || strpbrk(s->answer, " ?#%") || !str_format(path, sizeof path, ROLES "%s", s->answer))
        return err_set(err, ERR_UNAUTHENTICATED, "the metadata service at %s names no role; give the virtual machine one",
                       s->address);
    rc = ask(s, "GET", path, s->header, err);
    return rc ? rc : read_answer(s, ret, err);
}

static void session_free(struct session *s) {
    fetch_close(s->fetch);
    explicit_bzero(s, sizeof *s);
    free(s);
}
OWNABLE(struct session, session_free)

int s3_imds_load(int tries, struct s3_credentials *ret, struct err *err) {
    const char *disabled = getenv("AWS_EC2_METADATA_DISABLED"), *address = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    if (disabled && !strcasecmp(disabled, "true"))
        return err_set(err, ERR_UNAUTHENTICATED, "AWS_EC2_METADATA_DISABLED forbids asking the metadata service");
    OWNED_POINTER(session_free) struct session *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(err, ERR_EXHAUSTED, "out of memory for credentials");
    s->address = address && *address ? address : ADDRESS;
    s->tries = tries;
    char plain[512];
    size_t len = strlen(s->address);
    if (s->address[len - 1] == '/' && str_format(plain, sizeof plain, "%.*s", (int)(len - 1), s->address))
        s->address = plain;
    int rc = fetch_open(1, &s->fetch, err);
    return rc ? rc : talk(s, ret, err);
}
