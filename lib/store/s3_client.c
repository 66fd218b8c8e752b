#include "store/s3_client.h"

#include <arpa/inet.h>
#include <sys/random.h>

#include "store/s3_imds.h"
#include "store/s3_meter.h"

enum {
    STALL_S = 20,
    BACKOFF_BASE_MS = 100,
    BACKOFF_CAP_MS = 20000,
    TOKENS_MAX = 500, /* of the retry bucket: a retry takes some, a success gives one back */
    TOKENS_RETRY = 5,
    TURN_MS = 100,
    SKEW_LIMIT_S = 300,
    RENEW_BEFORE_S = 300, /* credentials expire */
    RENEW_PAUSE_S = 30,   /* between renewals, while the old ones last */
    METADATA_TRIES = 3,
    GROW_AFTER = 32, /* successes after which one more connection is allowed again */
    CALL_MEMORY = 256 << 10
};

struct s3_client {
    struct fetch *fetch;
    char bucket[256], host[512], region[64]; /* region is under the lock */
    bool tls, amazon, path_style, anonymous, requester_pays;
    int stall_s;
    pthread_mutex_t renewing; /* one renewal of the credentials at a time; never taken while lock is held */
    pthread_mutex_t lock;     /* everything below */
    struct s3_credentials credentials;
    unsigned credentials_serial;
    int64_t renew_s; /* no renewal before this while the credentials last */
    int64_t skew_s;  /* the server's clock less ours */
    int tokens, flying, allowed, successes;
    char *ca_file;           /* NULL = the system's CAs. Constant. */
    char *spec;              /* of the credentials; NULL = the usual places. Constant. */
    struct metrics *metrics; /* constant */
};

static const char *environment(const char *name, const char *other) {
    const char *value = getenv(name);
    if (value && *value)
        return value;
    value = other ? getenv(other) : NULL;
    return value && *value ? value : NULL;
}

/* A bucket's name as servers take it; it becomes part of a host name. */
static bool good_bucket(const char *name) {
    size_t len = strlen(name);
    return len >= 3 && len <= 63 + 1 && strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == len &&
           name[0] != '.' && name[0] != '-' && !strstr(name, "..");
}

/* True if BUCKET.HOST cannot be: an address, or a name without a dot. */
static bool plain_host(const char *host) {
    char name[512];
    struct in_addr address;
    str_copy(name, sizeof name, host);
    if (name[0] == '[')
        return true;
    name[strcspn(name, ":")] = '\0';
    return inet_pton(AF_INET, name, &address) == 1 || !strchr(name, '.');
}

static int read_endpoint(struct s3_client *c, const char *endpoint, struct err *err) {
    if (!endpoint)
        endpoint = environment("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
    c->amazon = !endpoint;
    c->tls = !endpoint || str_starts(endpoint, "https://");
    if (!endpoint)
        return 0;
    if (!c->tls && !str_starts(endpoint, "http://"))
        return err_set(err, ERR_INVALID, "S3 endpoint '%.200s': expected http://HOST[:PORT] or https://HOST[:PORT]", endpoint);
    const char *host = endpoint + (c->tls ? 8 : 7);
    size_t len = strlen(host);
    len -= len && host[len - 1] == '/';
    const char *port = c->tls ? ":443" : ":80"; /* a client leaves it out of Host */
    if (len > strlen(port) && !strncmp(host + len - strlen(port), port, strlen(port)))
        len -= strlen(port);
    if (!len || memchr(host, '/', len) || memchr(host, '@', len) || strpbrk(host, " ?#\"") ||
        !str_format(c->host, sizeof c->host, "%.*s", (int)len, host))
        return err_set(err, ERR_INVALID, "S3 endpoint '%.200s': expected http[s]://HOST[:PORT] and nothing behind it", endpoint);
    c->path_style = c->path_style || plain_host(c->host);
    return 0;
}

static int configure(struct s3_client *c, const struct store_config *config, struct err *err) {
    const char *name = config->url + strlen("s3://");
    size_t len = strcspn(name, "/");
    const char *region = config->region ? config->region : environment("AWS_REGION", "AWS_DEFAULT_REGION");
    bool fits = str_format(c->bucket, sizeof c->bucket, "%.*s", (int)len, name);
    if (!fits || !good_bucket(c->bucket))
        return err_set(err, ERR_INVALID, "'%.200s': expected s3://BUCKET/PREFIX; a bucket's name is 3 to 63 of a-z 0-9 . -",
                       config->url);
    COPY_MEMBERS(*c, *config, path_style, anonymous, requester_pays);
    c->stall_s = config->stall_s > 0 ? config->stall_s : STALL_S;
    c->metrics = config->metrics;
    s3_meter_open(c->metrics);
    c->tokens = TOKENS_MAX;
    c->allowed = S3_CONNECTIONS;
    if (!str_copy(c->region, sizeof c->region, region ? region : "us-east-1"))
        return err_set(err, ERR_INVALID, "region '%.60s…' is too long", region);
    int rc = read_endpoint(c, config->endpoint, err);
    if (rc)
        return rc;
    if (c->tls && strchr(c->bucket, '.'))
        c->path_style = true; /* no certificate covers BUCKET.WITH.DOTS.HOST */
    const char *ca_file = config->ca_file ? config->ca_file : environment("AWS_CA_BUNDLE", "AWS_CA_BUNDLE");
    if (ca_file && access(ca_file, R_OK))
        return err_errno(err, errno, "the file of CAs %.300s of %.100s cannot be read", ca_file, config->url);
    if (ca_file && !(c->ca_file = strdup(ca_file)))
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", config->url);
    if (config->credentials && !(c->spec = strdup(config->credentials)))
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", config->url);
    return c->anonymous ? 0 : s3_credentials_load(c->spec, &c->credentials, err);
}

int s3_client_open(const struct store_config *config, struct s3_client **ret, struct err *err) {
    struct s3_client *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", config->url);
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->renewing, NULL);
    int rc;
    if ((rc = configure(c, config, err)) || (rc = fetch_open(S3_CONNECTIONS, &c->fetch, err)))
        s3_client_close(c);
    else
        *ret = c;
    return rc;
}

void s3_client_close(struct s3_client *c) {
    if (!c)
        return;
    fetch_close(c->fetch);
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_destroy(&c->renewing);
    FREE_MEMBERS(*c, spec, ca_file);
    explicit_bzero(&c->credentials, sizeof c->credentials);
    free(c);
}

const char *s3_client_bucket(const struct s3_client *c) { return c->bucket; }

void s3_client_identity(const struct s3_client *c, struct str *out) {
    str_printf(out, "s3 %s://%s %s", c->tls ? "https" : "http", c->amazon ? "amazonaws.com" : c->host, c->bucket);
}

static bool same_key(const struct s3_credentials *a, const struct s3_credentials *b) {
    return !strcmp(a->id, b->id) && !strcmp(a->secret, b->secret) && !strcmp(a->token, b->token) && a->expires_s == b->expires_s &&
           a->remote == b->remote;
}

static int load_credentials(const struct s3_client *c, struct s3_credentials *ret, struct err *err) {
    int rc = s3_credentials_load(c->spec, ret, err);
    if (rc || !ret->remote)
        return rc;
    rc = s3_imds_load(c->spec ? METADATA_TRIES : 1, ret, err);
    if (rc && !c->spec)
        rc = err_wrap(err, "no credentials: neither AWS_ACCESS_KEY_ID nor a shared credentials file is there; set them, name "
                           "credentials: file:PATH#profile, or set anonymous: true for a public bucket");
    return rc;
}

/* Fetch the credentials anew, unless somebody did since they had this serial. The lock is not held, `renewing` is. */
static int renew(struct s3_client *c, unsigned serial, struct err *err) {
    struct s3_credentials fresh;
    pthread_mutex_lock(&c->lock);
    bool current = c->credentials_serial == serial;
    pthread_mutex_unlock(&c->lock);
    if (!current)
        return 0;
    int rc = load_credentials(c, &fresh, err);
    pthread_mutex_lock(&c->lock);
    if (!rc && !same_key(&fresh, &c->credentials)) {
        c->credentials = fresh;
        c->credentials_serial++;
    }
    c->renew_s = (int64_t)time(NULL) + RENEW_PAUSE_S;
    pthread_mutex_unlock(&c->lock);
    explicit_bzero(&fresh, sizeof fresh);
    return rc;
}

/* Credentials that are there and last: those of a metadata service are asked for at the first request, and again by one thread
 * some minutes before they expire, while the others go on with the old ones. */
static int ready_credentials(struct s3_client *c, struct err *err) {
    int64_t now = (int64_t)time(NULL);
    pthread_mutex_lock(&c->lock);
    const struct s3_credentials *k = &c->credentials;
    bool due = !c->anonymous && k->remote && now >= k->expires_s - RENEW_BEFORE_S;
    bool usable = *k->id && now < k->expires_s;
    due = due && (!usable || now >= c->renew_s);
    unsigned serial = c->credentials_serial;
    pthread_mutex_unlock(&c->lock);
    if (!due || (usable && pthread_mutex_trylock(&c->renewing)))
        return 0;
    if (!usable)
        pthread_mutex_lock(&c->renewing);
    int rc = renew(c, serial, usable ? NULL : err);
    pthread_mutex_unlock(&c->renewing);
    return usable ? 0 : rc;
}

/* The parts of one try; strings in the call's memory. */
struct plan {
    struct s3_call *call;
    char date[SIGV4_DATE_SIZE], region[64], payload[DIGEST_HEX_SIZE];
    const char *host, *path, *id, *secret, *token;
    struct sigv4_pair headers[SIGV4_MAX_PAIRS];
    int n_headers;
};

static void add_header(struct plan *p, const char *name, const char *value) {
    if (p->n_headers < SIGV4_MAX_PAIRS)
        p->headers[p->n_headers++] = (struct sigv4_pair){name, value};
}

static void take_state(struct s3_client *c, struct plan *p) {
    struct arena *memory = &p->call->memory;
    pthread_mutex_lock(&c->lock);
    sigv4_date((int64_t)time(NULL) + c->skew_s, p->date);
    str_copy(p->region, sizeof p->region, c->region);
    p->call->credentials_serial = c->credentials_serial;
    p->id = arena_strdup(memory, c->credentials.id);
    p->secret = arena_strdup(memory, c->credentials.secret);
    p->token = arena_strdup(memory, c->credentials.token);
    pthread_mutex_unlock(&c->lock);
    const char *host = c->amazon ? arena_printf(memory, "s3.%s.amazonaws.com", p->region) : c->host;
    p->host = c->path_style || !host ? host : arena_printf(memory, "%s.%s", c->bucket, host);
    p->path = c->path_style ? arena_printf(memory, "/%s/%s", c->bucket, p->call->key) : arena_printf(memory, "/%s", p->call->key);
    if (c->path_style && !*p->call->key)
        p->path = arena_printf(memory, "/%s", c->bucket);
}

static bool add_headers(struct s3_client *c, struct plan *p) {
    struct s3_call *call = p->call;
    add_header(p, "host", p->host);
    add_header(p, "x-amz-date", p->date);
    add_header(p, "x-amz-content-sha256", p->payload);
    if (*p->token)
        add_header(p, "x-amz-security-token", p->token);
    if (c->requester_pays)
        add_header(p, "x-amz-request-payer", "requester");
    if (!strcmp(call->method, "HEAD"))
        add_header(p, "x-amz-checksum-mode", "ENABLED");
    if (call->meta_sha256)
        add_header(p, "x-amz-meta-brrd-sha256", call->meta_sha256);
    if (call->if_match)
        add_header(p, "if-match", call->if_match);
    if (call->length)
        add_header(
            p, "range",
            arena_printf(&call->memory, "bytes=%lld-%lld", (long long)call->first, (long long)(call->first + call->length - 1)));
    for (int i = 0; i < p->n_headers; i++) {
        bool spare =
            c->anonymous && (!strcmp(p->headers[i].name, "x-amz-date") || !strcmp(p->headers[i].name, "x-amz-content-sha256"));
        if (!p->headers[i].value)
            return false;
        if (!strcmp(p->headers[i].name, "host") || spare)
            continue;
        const char *line = arena_printf(&call->memory, "%s: %s", p->headers[i].name, p->headers[i].value);
        if (!line)
            return false;
        call->fetch.headers[call->fetch.n_headers++] = line;
    }
    return true;
}

static int sign(struct s3_client *c, struct plan *p, struct err *err) {
    struct s3_call *call = p->call;
    OWNED(str_done) struct str text = {0};
    if (c->anonymous)
        return 0;
    const struct sigv4_request request = {call->method, p->path, call->query, call->n_query, p->headers, p->n_headers, p->payload};
    const struct sigv4_key key = {p->id, p->secret, p->region, p->date};
    str_init(&text, 16 << 10);
    str_puts(&text, "Authorization: ");
    int rc = sigv4_sign(&request, &key, &text, err);
    if (rc)
        return rc;
    const char *line = arena_strdup(&call->memory, str_cstr(&text));
    if (!line)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a request");
    call->fetch.headers[call->fetch.n_headers++] = line;
    return 0;
}

static int make_url(struct s3_client *c, struct plan *p, struct err *err) {
    OWNED(str_done) struct str url = str_of(64 << 10);
    str_printf(&url, "%s://%s", c->tls ? "https" : "http", p->host);
    sigv4_encode(p->path, true, &url);
    if (p->call->n_query)
        str_puts(&url, "?");
    int rc = sigv4_query(p->call->query, p->call->n_query, &url, err);
    p->call->fetch.url = rc || !str_ok(&url) ? NULL : arena_strdup(&p->call->memory, str_cstr(&url));
    return rc || p->call->fetch.url ? rc : err_set(err, ERR_RANGE, "the address of a request is too long");
}

/* A fresh try: new date, new signature, empty sink. */
static int prepare(struct s3_client *c, struct s3_call *call, struct err *err) {
    struct plan p = {.call = call};
    struct fetch_request *f = &call->fetch;
    arena_done(&call->memory);
    arena_init(&call->memory, CALL_MEMORY);
    f->method = call->method;
    f->n_headers = 0;
    COPY_MEMBERS(*f, *call, body, body_len);
    f->stall_s = call->stall_s ? call->stall_s : c->stall_s;
    f->ca_file = c->ca_file;
    f->sink = (struct fetch_sink){.buf = call->buf, .fd = call->fd, .offset = call->offset, .cap = call->cap};
    int ready = ready_credentials(c, err);
    if (ready)
        return ready;
    if (!call->body_len)
        str_copy(p.payload, sizeof p.payload, SIGV4_EMPTY_SHA256);
    else if (!digest_bytes(call->body, call->body_len, p.payload))
        return err_set(err, ERR_INTERNAL, "OpenSSL could not compute a SHA-256");
    take_state(c, &p);
    if (!p.host || !p.path || !p.id || !p.secret || !p.token)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a request");
    int rc;
    if ((rc = make_url(c, &p, err)) || (!add_headers(c, &p) && (rc = err_set(err, ERR_EXHAUSTED, "out of memory for a request"))) ||
        (rc = sign(c, &p, err)))
        return rc;
    f->headers[f->n_headers++] = "Expect:"; /* not signed: no second of waiting for 100-continue */
    f->headers[f->n_headers++] = "Accept:";
    if (!strcmp(call->method, "POST"))
        f->headers[f->n_headers++] = "Content-Type: application/xml";
    if (call->crc && !(f->sink.crc = crc_new(call->crc_kind, false)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for a checksum");
    return 0;
}

/* Between 0 and the cap that doubles with each try ("full jitter"). */
static int64_t backoff_ms(int tries) {
    uint32_t random = 0;
    int64_t cap = BACKOFF_BASE_MS;
    for (int i = 1; i < tries && cap < BACKOFF_CAP_MS; i++)
        cap *= 2;
    if (cap > BACKOFF_CAP_MS)
        cap = BACKOFF_CAP_MS;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
        return cap;
    return (int64_t)random % (cap + 1);
}

static void object_name(const struct s3_client *c, const struct s3_call *call, char *buf, size_t size) {
    str_format(buf, size, "s3://%s/%s", c->bucket, call->key);
}

/* "bytes 0-9/100"; false for anything else. */
static bool read_range(const char *text, int64_t *first, int64_t *last, int64_t *total) {
    char copy[96];
    if (!str_starts(text, "bytes ") || !str_copy(copy, sizeof copy, text + 6))
        return false;
    char *dash = strchr(copy, '-'), *slash = strchr(copy, '/');
    if (!dash || !slash || slash < dash)
        return false;
    *dash = *slash = '\0';
    return str_to_i64(copy, first) && str_to_i64(dash + 1, last) && str_to_i64(slash + 1, total);
}

/* Checks that a 2xx response is complete. Sets *ret_short if it ended too early. */
static int check_answer(struct s3_client *c, struct s3_call *call, bool *ret_short, struct err *err) {
    const struct fetch_request *f = &call->fetch;
    char object[300];
    int64_t first, last, total;
    object_name(c, call, object, sizeof object);
    if (call->if_match && *f->answer.etag && strcmp(call->if_match, f->answer.etag) != 0)
        return err_set(err, ERR_ABORTED, "%s changed while it was read (ETag %s, was %s); try again", object, f->answer.etag,
                       call->if_match);
    bool get = !strcmp(call->method, "GET");
    if (get && f->answer.content_length >= 0 && (int64_t)f->sink.got != f->answer.content_length)
        *ret_short = true;
    if (!call->length || *ret_short)
        return 0;
    if (f->status == 200 && call->first == 0 && (call->short_ok || (int64_t)f->sink.got == call->length) &&
        (!call->total || call->total == (int64_t)f->sink.got))
        return 0; /* a server without ranges sent the whole, and the whole was wanted */
    if (f->status != 206)
        return err_set(err, ERR_UNSUPPORTED, "%s: the server ignores Range (HTTP %d); resumable reading needs it", object,
                       f->status);
    if (!read_range(f->answer.content_range, &first, &last, &total) || first != call->first || last < first ||
        (call->total && total != call->total) || last - first + 1 > call->length)
        return err_set(err, ERR_DATA_LOSS, "%s: asked for bytes %lld to %lld of %lld, the server sent '%s'", object,
                       (long long)call->first, (long long)(call->first + call->length - 1), (long long)call->total,
                       f->answer.content_range);
    if ((int64_t)f->sink.got != last - first + 1 || (!call->short_ok && (int64_t)f->sink.got != call->length))
        *ret_short = true;
    return 0;
}

/* State that all calls share, after an answer: the server's pace, and tokens. Gives false when the bucket is empty. */
static bool account(struct s3_client *c, bool ok, bool retry, bool slow_down) {
    bool may = true;
    LOCKED(&c->lock);
    if (ok) {
        c->tokens += c->tokens < TOKENS_MAX;
        if (c->allowed < S3_CONNECTIONS && ++c->successes >= GROW_AFTER) {
            c->allowed++;
            c->successes = 0;
        }
    }
    if (slow_down && c->allowed > 1)
        c->allowed /= 2;
    if (retry) {
        may = c->tokens >= TOKENS_RETRY;
        c->tokens -= may ? TOKENS_RETRY : 0;
    }
    return may;
}

/* Corrects the request where its clock, region or key was wrong. Each correction is tried once. */
static bool correct(struct s3_client *c, struct s3_call *call, const struct s3_error *e) {
    const struct fetch_headers *h = &call->fetch.answer;
    bool again = false;
    if (e->expired && !call->key_tried && !c->anonymous) {
        call->key_tried = true;
        pthread_mutex_lock(&c->renewing);
        int rc = renew(c, call->credentials_serial, NULL);
        pthread_mutex_unlock(&c->renewing);
        pthread_mutex_lock(&c->lock);
        again = !rc && call->credentials_serial != c->credentials_serial;
        pthread_mutex_unlock(&c->lock);
        return again;
    }
    int64_t skew = h->date_s >= 0 ? h->skew_s : 0;
    LOCKED(&c->lock);
    int64_t off = skew > c->skew_s ? skew - c->skew_s : c->skew_s - skew;
    if (!c->anonymous && !call->skew_tried && h->date_s >= 0 &&
        (e->skewed || (call->fetch.status == 403 && !*e->code && off > SKEW_LIMIT_S))) {
        c->skew_s = skew;
        again = call->skew_tried = true;
    } else if (e->wrong_region && !call->region_tried && str_copy(c->region, sizeof c->region, h->region)) {
        again = call->region_tried = true;
    }
    return again;
}

static int fail(struct s3_call *call, int rc) {
    call->state = S3_ENDED;
    return rc;
}

/* An answer came: done, once more, or failed. */
static int judge(struct s3_client *c, struct s3_call *call, struct err *err) {
    struct fetch_request *f = &call->fetch;
    struct s3_error e;
    char object[300];
    bool is_short = false;
    object_name(c, call, object, sizeof object);
    if (f->sink.crc)
        call->sum = crc_finish(f->sink.crc);
    f->sink.crc = NULL;
    if (!f->failure && f->status >= 200 && f->status < 300) {
        int rc = check_answer(c, call, &is_short, err);
        if (rc || !is_short) {
            account(c, !rc, false, false);
            return fail(call, rc);
        }
    }
    s3_error_read(f, &e);
    if (is_short) {
        e.transient = true;
        str_format(f->failure_text, sizeof f->failure_text, "the body ends after %zu bytes", f->sink.got);
        f->failure = 18; /* as libcurl calls a partial file */
    }
    if (!f->failure && correct(c, call, &e)) {
        s3_meter_retry(c->metrics, call, &e, false);
        call->state = S3_WAITING;
        call->next_ms = 0;
        return 0;
    }
    if (e.transient && call->tries < S3_MAX_TRIES && account(c, false, true, e.slow_down)) {
        int64_t asked_ms = f->answer.retry_after_s > 0 ? f->answer.retry_after_s * 1000 : 0;
        int64_t wait_ms = backoff_ms(call->tries);
        s3_meter_retry(c->metrics, call, &e, is_short);
        call->next_ms = clock_ms() + (asked_ms > wait_ms && asked_ms <= BACKOFF_CAP_MS ? asked_ms : wait_ms);
        call->state = S3_WAITING;
        return 0;
    }
    return fail(call, s3_error_set(&e, f, object, call->tries, err));
}

/* Returns ERR_* when the call failed (and ended). 0 and state S3_ENDED: it succeeded. 0 otherwise: step again after s3_client_wait.
 */
static int s3_call_step(struct s3_client *c, struct s3_call *call, struct err *err) {
    if (call->state == S3_WAITING && clock_ms() >= call->next_ms) {
        pthread_mutex_lock(&c->lock);
        bool turn = c->flying < c->allowed;
        c->flying += turn;
        pthread_mutex_unlock(&c->lock);
        if (!turn)
            return 0;
        int rc = prepare(c, call, err);
        if (rc) {
            pthread_mutex_lock(&c->lock);
            c->flying--;
            pthread_mutex_unlock(&c->lock);
            return fail(call, rc);
        }
        call->tries++;
        call->state = S3_FLYING;
        s3_meter_begin(c->metrics);
        fetch_start(c->fetch, &call->fetch);
    } else if (call->state == S3_FLYING && fetch_done(c->fetch, &call->fetch)) {
        pthread_mutex_lock(&c->lock);
        c->flying--;
        pthread_mutex_unlock(&c->lock);
        s3_meter_end(c->metrics, call, false);
        return judge(c, call, err);
    }
    return 0;
}

void s3_call_done(struct s3_client *c, struct s3_call *call) {
    if (call->state == S3_FLYING) {
        fetch_cancel(c->fetch, &call->fetch);
        s3_meter_end(c->metrics, call, true);
        LOCKED(&c->lock);
        c->flying--;
    }
    if (call->fetch.sink.crc)
        (void)crc_finish(call->fetch.sink.crc);
    call->fetch.sink.crc = NULL;
    call->state = S3_ENDED;
    arena_done(&call->memory);
}

/* Waits until some request has ended or 100 ms have passed. */
static void s3_client_wait(struct s3_client *c, uint64_t *seen) { fetch_wait(c->fetch, seen, TURN_MS); }

int s3_call_run(struct s3_client *c, struct s3_call *call, const struct store_watch *watch, struct err *err) {
    uint64_t seen = 0;
    int rc = 0;
    while (!rc) {
        rc = s3_call_step(c, call, err);
        if (rc || call->state == S3_ENDED)
            break;
        s3_client_wait(c, &seen);
        if (watch && watch->progress && !watch->progress(watch->ctx, 0, (int64_t)call->body_len))
            rc = err_set(err, ERR_CANCELLED, "s3://%s/%s: cancelled", c->bucket, call->key);
    }
    s3_call_done(c, call);
    return rc;
}

/* One step of each call; *ret_flying: calls that go on. */
static int step_all(struct s3_client *c, const struct s3_batch *b, bool *busy, int *ret_flying, struct err *err) {
    int rc;
    *ret_flying = 0;
    for (int i = 0; i < b->n; i++) {
        if (!busy[i] && (rc = b->next(b->ctx, i, &busy[i], err)))
            return rc;
        if (!busy[i])
            continue;
        if ((rc = s3_call_step(c, &b->calls[i], err)))
            return rc;
        if (b->calls[i].state == S3_ENDED) {
            busy[i] = false;
            if ((rc = b->ended(b->ctx, i, err)) || (rc = b->next(b->ctx, i, &busy[i], err)) ||
                (busy[i] && (rc = s3_call_step(c, &b->calls[i], err))))
                return rc;
        }
        *ret_flying += busy[i];
    }
    return 0;
}

static int run_all(struct s3_client *c, const struct s3_batch *b, bool *busy, struct err *err) {
    const struct store_watch *watch = b->watch;
    uint64_t seen = 0;
    for (int flying = 1, rc; flying;) {
        if ((rc = step_all(c, b, busy, &flying, err)))
            return rc;
        if (watch->progress && !watch->progress(watch->ctx, *b->done_bytes, b->size_bytes))
            return err_set(err, ERR_CANCELLED, "%s %s was cancelled at byte %lld", b->verb, b->object, (long long)*b->done_bytes);
        if (flying)
            s3_client_wait(c, &seen);
    }
    return 0;
}

int s3_batch_run(struct s3_client *c, const struct s3_batch *b, struct err *err) {
    bool busy[S3_CONNECTIONS] = {0};
    int rc = run_all(c, b, busy, err);
    for (int i = 0; i < b->n; i++)
        if (busy[i])
            s3_call_done(c, &b->calls[i]);
    return rc;
}
