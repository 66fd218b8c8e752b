/* The signer beside libcurl's own (CURLOPT_AWS_SIGV4): both sign the same request, and the whole Authorization must be the same.
 * Random requests; the seed is printed.
 *
 * libcurl 7.88 signs path and query as they are sent. What is compared here is therefore sent in canonical form, but escaped by
 * curl_easy_escape and sorted by this file, not by the code under test. Not comparable, because libcurl 7.88 does it otherwise than
 * Amazon: parameters that are sent unsorted or without '=', and headers of which one name begins with the other's (it sorts
 * "name:value" as one text). The worked examples of test_s3_sigv4.c and the gateways of tests/integration decide there. */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <sys/socket.h>

#include "base/order.h"
#include "unit/cmocka_all.h"

#include "seed.h"
#include "store/digest.h"
#include "store/sigv4.h"

enum { CASES = 150, SENT_MAX = 32 << 10, BODY_MAX = 3000, PAIRS = 6, TEXT = 256 };

static uint64_t seed, state_of_random;

static uint32_t random_below(uint32_t n) { /* splitmix64 */
    uint64_t z = state_of_random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) >> 33) % n;
}

/* Letters of `from`; NUL-terminated. */
static void random_text(char *buf, const char *from, uint32_t least, uint32_t most) {
    uint32_t n = least + random_below(most - least + 1), choices = (uint32_t)strlen(from);
    for (uint32_t i = 0; i < n; i++)
        buf[i] = from[random_below(choices)];
    buf[n] = '\0';
}

static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
static const char odd[] = "abcXYZ019-_.~ !\"#$%&'()*+,:;<=>?@[\\]^`{|}\xc3\xa9\xe2\x82\xac";

/* ---- a server that answers every request with nothing ---- */

struct listener {
    int fd, port;
    pthread_t thread;
};

static void answer_one(int fd) {
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    static char text[SENT_MAX];
    size_t len = 0;
    const char *end = NULL, *length;
    do {
        ssize_t n = read(fd, text + len, sizeof text - 1 - len);
        if (n <= 0)
            break;
        len += (size_t)n;
        text[len] = '\0';
        end = strstr(text, "\r\n\r\n");
        length = strcasestr(text, "\r\nContent-Length: ");
    } while (!end || (length && len < (size_t)(end + 4 - text) + strtoul(length + 18, NULL, 10)));
    if (write(fd, answer, sizeof answer - 1) < 0)
        print_message("cannot answer\n");
}

static void *serve(void *arg) {
    const struct listener *l = arg;
    for (int fd; (fd = accept(l->fd, NULL, NULL)) >= 0;) {
        answer_one(fd);
        shutdown(fd, SHUT_RDWR);
        close(fd);
    }
    return NULL;
}

static int open_listener(void **state) {
    static struct listener l;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    l.fd = socket(AF_INET, SOCK_STREAM, 0);
    if (l.fd < 0 || bind(l.fd, (struct sockaddr *)&a, len) || listen(l.fd, 8) || getsockname(l.fd, (struct sockaddr *)&a, &len))
        return -1;
    l.port = ntohs(a.sin_port);
    *state = &l;
    return pthread_create(&l.thread, NULL, serve, &l);
}

static int close_listener(void **state) {
    struct listener *l = *state;
    shutdown(l->fd, SHUT_RDWR);
    pthread_join(l->thread, NULL);
    return close(l->fd);
}

/* ---- one request, as it is meant ---- */

struct request {
    char method[8], path[TEXT], region[40], id[40], secret[80], body[BODY_MAX], payload[DIGEST_HEX_SIZE];
    size_t body_len;
    bool named;                                                   /* x-amz-content-sha256 is a header, as S3 wants it */
    char query_text[PAIRS][2][TEXT], header_text[PAIRS][2][TEXT]; /* header names as they are sent, in any case */
    int n_query, n_headers;
};

/* Keys of objects: odd characters, empty parts, dots. */
static void make_path(struct request *r) {
    static const char *const parts[] = {"/", "//", "/./", "/../", "/a b/", "/~"};
    char some[40];
    str_copy(r->path, sizeof r->path, "/bucket");
    for (uint32_t i = random_below(5); i; i--) {
        size_t len = strlen(r->path);
        random_text(some, odd, 0, 30);
        str_format(r->path + len, sizeof r->path - len, "%s%s", parts[random_below(6)], some);
    }
}

/* Whether one of two names begins with the other, letters' case aside. */
static bool akin(const char *a, const char *b) {
    size_t n = strlen(a) < strlen(b) ? strlen(a) : strlen(b);
    return !strncasecmp(a, b, n);
}

static void add_header(struct request *r, const char *name, const char *value) {
    static const char *const others[] = {"host", "x-amz-date", "x-amz-content-sha256"};
    for (int i = 0; i < 3; i++)
        if (akin(name, others[i]))
            return;
    for (int i = 0; i < r->n_headers; i++)
        if (akin(name, r->header_text[i][0]))
            return;
    str_copy(r->header_text[r->n_headers][0], TEXT, name);
    str_copy(r->header_text[r->n_headers++][1], TEXT, value);
}

static void make_headers(struct request *r) {
    static const char *const names[] = {"Range", "If-Match", "X-Amz-Security-Token", "x-amz-request-payer", "x-amz-checksum-mode"};
    char name[TEXT] = "X-Amz-Meta-", value[TEXT];
    for (uint32_t i = random_below(PAIRS); i; i--) {
        uint32_t which = random_below(8);
        random_text(name + 11, letters, 1, 12);
        random_text(value + 1, "abcXYZ019 \t-_.~!#$%&'()*+,:;/=\"", 0, 60);
        value[0] = 'v'; /* libcurl leaves out a header that is empty */
        add_header(r, which < 5 ? names[which] : name, value);
    }
}

static void make_request(struct request *r) {
    static const char *const methods[] = {"GET", "HEAD", "PUT", "POST", "DELETE"};
    *r = (struct request){.named = random_below(4) > 0};
    str_copy(r->method, sizeof r->method, methods[random_below(5)]);
    random_text(r->region, "abcdefghijklmnopqrstuvwxyz0123456789-", 1, 20);
    random_text(r->id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", 16, 32);
    random_text(r->secret, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/+=:@% ", 1, 60);
    make_path(r);
    r->n_query = (int)random_below(PAIRS + 1);
    for (int i = 0; i < r->n_query; i++) {
        random_text(r->query_text[i][0], odd, 1, 20);
        random_text(r->query_text[i][1], odd, 0, 40);
    }
    if (!strcmp(r->method, "PUT") || !strcmp(r->method, "POST"))
        r->body_len = random_below(3) ? random_below(BODY_MAX) : 0;
    for (size_t i = 0; i < r->body_len; i++)
        r->body[i] = (char)random_below(256);
    assert_true(digest_bytes(r->body, r->body_len, r->payload));
    if (r->named && !random_below(4))
        str_copy(r->payload, sizeof r->payload, SIGV4_UNSIGNED);
    make_headers(r);
}

/* ---- libcurl sends it ---- */

static void escape(CURL *h, struct str *out, const char *raw, size_t len) {
    char *text = curl_easy_escape(h, raw, (int)len);
    assert_non_null(text);
    str_puts(out, len ? text : "");
    curl_free(text);
}

static int by_name_then_value(const void *a, const void *b) {
    const char(*x)[3 * TEXT] = a, (*y)[3 * TEXT] = b;
    return order_then(strcmp(x[0], y[0]), strcmp(x[1], y[1]));
}

static void make_url(CURL *h, const struct request *r, int port, struct str *url) {
    char pairs[PAIRS][2][3 * TEXT];
    struct str text;
    str_printf(url, "http://127.0.0.1:%d", port);
    for (const char *part = r->path + 1;; part++) {
        size_t len = strcspn(part, "/");
        str_puts(url, "/");
        escape(h, url, part, len);
        if (!*(part += len))
            break;
    }
    for (int i = 0; i < r->n_query; i++)
        for (int k = 0; k < 2; k++) {
            str_init(&text, 3 * TEXT);
            escape(h, &text, r->query_text[i][k], strlen(r->query_text[i][k]));
            str_copy(pairs[i][k], sizeof pairs[i][k], str_cstr(&text));
            str_done(&text);
        }
    if (r->n_query)
        qsort(pairs, (size_t)r->n_query, sizeof *pairs, by_name_then_value);
    for (int i = 0; i < r->n_query; i++)
        str_printf(url, "%s%s=%s", i ? "&" : "?", pairs[i][0], pairs[i][1]);
    assert_true(str_ok(url));
}

static int keep_headers(CURL *h, curl_infotype type, char *data, size_t len, void *ctx) {
    (void)h;
    if (type == CURLINFO_HEADER_OUT)
        str_append(ctx, data, len);
    return 0;
}

/* What libcurl sent, headers only, in `sent`. */
static void send_request(const struct request *r, int port, struct str *sent) {
    CURL *h = curl_easy_init();
    struct curl_slist *list = NULL;
    struct str url, line;
    char service[80];
    str_init(&url, 16 << 10);
    make_url(h, r, port, &url);
    for (int i = 0; i < r->n_headers + r->named; i++) {
        str_init(&line, 2 * TEXT + 8);
        str_printf(&line, "%s: %s", i < r->n_headers ? r->header_text[i][0] : "X-Amz-Content-SHA256",
                   i < r->n_headers ? r->header_text[i][1] : r->payload);
        list = curl_slist_append(list, str_cstr(&line));
        str_done(&line);
    }
    str_format(service, sizeof service, "aws:amz:%s:s3", r->region);
    curl_easy_setopt(h, CURLOPT_URL, str_cstr(&url));
    curl_easy_setopt(h, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(h, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(h, CURLOPT_AWS_SIGV4, service);
    curl_easy_setopt(h, CURLOPT_USERNAME, r->id);
    curl_easy_setopt(h, CURLOPT_PASSWORD, r->secret);
    curl_easy_setopt(h, CURLOPT_HTTPHEADER, list);
    curl_easy_setopt(h, CURLOPT_VERBOSE, 1L);
    curl_easy_setopt(h, CURLOPT_DEBUGFUNCTION, keep_headers);
    curl_easy_setopt(h, CURLOPT_DEBUGDATA, sent);
    if (!strcmp(r->method, "HEAD"))
        curl_easy_setopt(h, CURLOPT_NOBODY, 1L);
    if (!strcmp(r->method, "PUT") || !strcmp(r->method, "POST")) { /* libcurl hashes what it is given like this */
        curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE, (long)r->body_len);
        curl_easy_setopt(h, CURLOPT_POSTFIELDS, r->body);
    }
    if (!strcmp(r->method, "PUT") || !strcmp(r->method, "DELETE"))
        curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, r->method);
    CURLcode rc = curl_easy_perform(h);
    if (rc)
        print_message("%s: %s\n", str_cstr(&url), curl_easy_strerror(rc));
    assert_int_equal(rc, CURLE_OK);
    curl_slist_free_all(list);
    curl_easy_cleanup(h);
    str_done(&url);
}

/* The value of a header in the text of a request. */
static void header(const struct str *sent, const char *name, char *buf, size_t size) {
    char want[64];
    str_format(want, sizeof want, "\r\n%s: ", name);
    const char *at = strcasestr(sent->data, want);
    assert_non_null(at);
    at += strlen(want);
    assert_true(str_format(buf, size, "%.*s", (int)strcspn(at, "\r"), at));
}

/* ---- and we sign it ---- */

static void without_blanks(char *text) {
    char *to = text;
    for (const char *from = text; *from; from++)
        if (from == text || from[-1] != ',' || *from != ' ')
            *to++ = *from;
    *to = '\0';
}

static void lower(char *to, const char *from) {
    for (; *from; from++)
        *to++ = (char)(*from >= 'A' && *from <= 'Z' ? *from + 32 : *from);
    *to = '\0';
}

static void sign(const struct request *r, const struct str *sent, struct str *ours) {
    struct sigv4_pair query[PAIRS], headers[PAIRS + 3];
    char date[64], host[64], names[PAIRS][TEXT];
    struct err err = {0};
    int n = r->n_headers;
    header(sent, "X-Amz-Date", date, sizeof date);
    header(sent, "Host", host, sizeof host);
    for (int i = 0; i < r->n_query; i++)
        query[i] = (struct sigv4_pair){r->query_text[i][0], r->query_text[i][1]};
    for (int i = 0; i < n; i++) {
        lower(names[i], r->header_text[i][0]);
        headers[i] = (struct sigv4_pair){names[i], r->header_text[i][1]};
    }
    headers[n++] = (struct sigv4_pair){"host", host};
    headers[n++] = (struct sigv4_pair){"x-amz-date", date};
    if (r->named)
        headers[n++] = (struct sigv4_pair){"x-amz-content-sha256", r->payload};
    const struct sigv4_request request = {r->method, r->path, query, r->n_query, headers, n, r->payload};
    const struct sigv4_key key = {r->id, r->secret, r->region, date};
    assert_int_equal(sigv4_sign(&request, &key, ours, &err), 0);
}

static void the_whole_authorization_equals_libcurls(void **state) {
    const struct listener *l = *state;
    static struct request r;
    int with_body = 0, with_odd_path = 0;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < CASES; i++) {
        struct str sent, ours;
        char theirs[2000];
        make_request(&r);
        str_init(&sent, SENT_MAX);
        str_init(&ours, 4096);
        send_request(&r, l->port, &sent);
        header(&sent, "Authorization", theirs, sizeof theirs);
        without_blanks(theirs);
        sign(&r, &sent, &ours);
        if (strcmp(theirs, str_cstr(&ours)) != 0)
            print_message("case %d of seed %llu was sent as\n%s", i, (unsigned long long)seed, str_cstr(&sent));
        assert_string_equal(str_cstr(&ours), theirs);
        with_body += r.body_len > 0;
        with_odd_path += strpbrk(r.path, " +%&=?#") != NULL;
        str_done(&sent);
        str_done(&ours);
    }
    assert_true(with_body >= CASES / 20 && with_odd_path >= CASES / 10); /* the cases are worth something */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_whole_authorization_equals_libcurls)};
    state_of_random = seed = test_seed();
    return cmocka_run_group_tests(tests, open_listener, close_listener);
}
