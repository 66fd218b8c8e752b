/* The signer beside libcurl's own, what XML of S3 says, where keys come from, what answers mean. */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/temp_dir.h"

#include "store/s3_credentials.h"
#include "store/s3_error.h"
#include "store/s3_xml.h"
#include "store/sigv4.h"

/* A server for one request: keeps what it was sent, answers with nothing. */
struct listener {
    int fd, port;
    char text[8192];
};

static void *listen_once(void *arg) {
    struct listener *l = arg;
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    int fd = accept(l->fd, NULL, NULL);
    size_t len = 0;
    while (fd >= 0 && len + 1 < sizeof l->text && !strstr(l->text, "\r\n\r\n")) {
        ssize_t n = read(fd, l->text + len, sizeof l->text - 1 - len);
        if (n <= 0)
            break;
        len += (size_t)n;
        l->text[len] = '\0';
    }
    if (write(fd, answer, strlen(answer)) < 0)
        l->text[0] = '\0';
    close(fd);
    return NULL;
}

static bool listener_open(struct listener *l) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    *l = (struct listener){.fd = socket(AF_INET, SOCK_STREAM, 0)};
    if (l->fd < 0 || bind(l->fd, (struct sockaddr *)&a, len) || listen(l->fd, 1) || getsockname(l->fd, (struct sockaddr *)&a, &len))
        return false;
    l->port = ntohs(a.sin_port);
    return true;
}

/* The value of a header in the text of a request. */
static bool header(const char *text, const char *name, char *buf, size_t size) {
    char want[64];
    str_format(want, sizeof want, "\r\n%s: ", name);
    const char *at = strcasestr(text, want);
    if (!at)
        return false;
    at += strlen(want);
    return str_format(buf, size, "%.*s", (int)strcspn(at, "\r"), at);
}

/* libcurl signs; the same headers, signed here, must give the same signature. path and query are written as they are meant, and
 * stand for themselves on the wire. */
static void same_as_libcurl(const char *path, const char *query, const struct sigv4_pair *pairs, int n_pairs) {
    struct listener l;
    pthread_t thread;
    char url[600], authorization[600], date[64], host[64], range[64], want[80];
    assert_true(listener_open(&l));
    assert_int_equal(pthread_create(&thread, NULL, listen_once, &l), 0);
    CURL *h = curl_easy_init();
    struct curl_slist *list = curl_slist_append(NULL, "x-amz-content-sha256: " SIGV4_EMPTY_SHA256);
    list = curl_slist_append(list, "range: bytes=0-9");
    str_format(url, sizeof url, "http://127.0.0.1:%d%s%s%s", l.port, path, *query ? "?" : "", query);
    curl_easy_setopt(h, CURLOPT_URL, url);
    curl_easy_setopt(h, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(h, CURLOPT_AWS_SIGV4, "aws:amz:eu-west-3:s3");
    curl_easy_setopt(h, CURLOPT_USERNAME, "AKIDEXAMPLE");
    curl_easy_setopt(h, CURLOPT_PASSWORD, "wJalr/XUtn+FEMI=");
    curl_easy_setopt(h, CURLOPT_HTTPHEADER, list);
    CURLcode sent = curl_easy_perform(h);
    curl_slist_free_all(list);
    curl_easy_cleanup(h);
    pthread_join(thread, NULL);
    close(l.fd);
    assert_int_equal(sent, CURLE_OK);
    assert_true(header(l.text, "Authorization", authorization, sizeof authorization));
    assert_true(header(l.text, "X-Amz-Date", date, sizeof date));
    assert_true(header(l.text, "Host", host, sizeof host));
    assert_true(header(l.text, "range", range, sizeof range));
    assert_non_null(strstr(authorization, "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date"));

    const struct sigv4_pair headers[] = {
        {"host", host}, {"x-amz-date", date}, {"range", range}, {"x-amz-content-sha256", SIGV4_EMPTY_SHA256}};
    const struct sigv4_request request = {"GET", path, pairs, n_pairs, headers, 4, SIGV4_EMPTY_SHA256};
    const struct sigv4_key key = {"AKIDEXAMPLE", "wJalr/XUtn+FEMI=", "eu-west-3", date};
    struct str ours;
    struct err err = {0};
    str_init(&ours, 4096);
    assert_int_equal(sigv4_sign(&request, &key, &ours, &err), 0);
    str_format(want, sizeof want, "%s", strstr(str_cstr(&ours), "Signature="));
    assert_non_null(strstr(authorization, want));
    str_done(&ours);
}

static void signatures_equal_those_of_libcurl(void **state) {
    (void)state;
    const struct sigv4_pair listing[] = {{"list-type", "2"}, {"prefix", "chb01"}};
    same_as_libcurl("/bucket/chb01/chb01_01.edf", "", NULL, 0);
    same_as_libcurl("/bucket/a~b_c-d.e", "", NULL, 0);
    same_as_libcurl("/bucket", "list-type=2&prefix=chb01", listing, 2);
}

static void elements_and_entities_are_read(void **state) {
    (void)state;
    const char xml[] = "<A><Key>a&amp;b&#x20;&#233;&lt;&quot;&gt;&apos;&#13;</Key><KeyCount>3</KeyCount><E/></A>";
    char text[64];
    assert_true(s3_xml_text(xml, strlen(xml), "Key", text, sizeof text));
    assert_string_equal(text, "a&b \xc3\xa9<\">'\r");
    assert_true(s3_xml_text(xml, strlen(xml), "KeyCount", text, sizeof text));
    assert_string_equal(text, "3");
    assert_false(s3_xml_text(xml, strlen(xml), "E", text, sizeof text));
    assert_false(s3_xml_text(xml, strlen(xml), "Key", text, 4));
    assert_false(s3_xml_text("<Key>x", 6, "Key", text, sizeof text));
    const char odd[] = "<Key>&</Key><B>&#0;&#x110000;&#;&nbsp;</B>";
    assert_true(s3_xml_text(odd, strlen(odd), "Key", text, sizeof text));
    assert_string_equal(text, "&");
    assert_true(s3_xml_text(odd, strlen(odd), "B", text, sizeof text));
    assert_string_equal(text, "&#0;&#x110000;&#;&nbsp;");
}

static void url_encoding_is_resolved_or_refused(void **state) {
    (void)state;
    char good[] = "a+b%2Bc%c3%A9/", *const bad[] = {(char[]){"%"}, (char[]){"%2"}, (char[]){"%zz"}, (char[]){"%00"}};
    assert_true(s3_xml_url_decode(good));
    assert_string_equal(good, "a b+c\xc3\xa9/");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(s3_xml_url_decode(bad[i]));
}

static void keys_come_from_the_profile_that_is_named(void **state) {
    struct s3_credentials c;
    struct err err = {0};
    char spec[600];
    const char text[] =
        "# keys\n[default]\naws_access_key_id=A\naws_secret_access_key = B \n[profile lab]\r\naws_access_key_id = C\r\n"
        "aws_secret_access_key=D=\r\naws_session_token = E\r\n[half]\naws_access_key_id=F\n";
    assert_int_equal(fsio_write_atomic(in_dir(state, "keys"), text, strlen(text), NULL), 0);
    str_format(spec, sizeof spec, "file:%s", in_dir(state, "keys"));
    assert_int_equal(s3_credentials_load(spec, &c, &err), 0);
    assert_string_equal(c.id, "A");
    assert_string_equal(c.secret, "B");
    assert_string_equal(c.token, "");
    str_format(spec, sizeof spec, "file:%s#lab", in_dir(state, "keys"));
    assert_int_equal(s3_credentials_load(spec, &c, &err), 0);
    assert_string_equal(c.secret, "D=");
    assert_string_equal(c.token, "E");
    static const char *const without[] = {"half", "none"};
    for (int i = 0; i < 2; i++) {
        str_format(spec, sizeof spec, "file:%s#%s", in_dir(state, "keys"), without[i]);
        assert_int_equal(s3_credentials_load(spec, &c, &err), ERR_UNAUTHENTICATED);
        assert_non_null(strstr(err.message, without[i]));
    }
    assert_int_equal(s3_credentials_load("imds", &c, &err), 0);
    assert_true(c.remote && !*c.id); /* to be asked for later */
    assert_int_equal(s3_credentials_load("secret", &c, &err), ERR_INVALID);
}

static void answers_are_tried_again_or_explained(void **state) {
    (void)state;
    static const struct {
        int status;
        const char *code;
        bool transient;
        int err;
    } rows[] = {{503, "SlowDown", true, ERR_UNAVAILABLE},
                {500, "InternalError", true, ERR_UNAVAILABLE},
                {429, "", true, ERR_UNAVAILABLE},
                {400, "RequestTimeout", true, ERR_UNAVAILABLE},
                {403, "AccessDenied", false, ERR_DENIED},
                {403, "", false, ERR_DENIED},
                {404, "NoSuchKey", false, ERR_NOT_FOUND},
                {404, "NoSuchBucket", false, ERR_NOT_FOUND},
                {412, "", false, ERR_ABORTED},
                {416, "InvalidRange", false, ERR_RANGE},
                {418, "Odd", false, ERR_INVALID},
                {501, "NotImplemented", false, ERR_UNSUPPORTED}};
    struct fetch_request *a = calloc(1, sizeof *a);
    assert_non_null(a);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct s3_error e;
        struct err err = {0};
        a->status = rows[i].status;
        str_format(a->note, sizeof a->note, *rows[i].code ? "<Error><Code>%s</Code></Error>" : "%s", rows[i].code);
        a->note_len = strlen(a->note);
        s3_error_read(a, &e);
        assert_int_equal(e.transient, rows[i].transient);
        assert_int_equal(s3_error_set(&e, a, "s3://bucket/key", 3, &err), rows[i].err);
        assert_non_null(strstr(err.message, "s3://bucket/key: "));
    }
    free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signatures_equal_those_of_libcurl),    cmocka_unit_test(elements_and_entities_are_read),
        cmocka_unit_test(url_encoding_is_resolved_or_refused),  in_temp_dir(keys_come_from_the_profile_that_is_named),
        cmocka_unit_test(answers_are_tried_again_or_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
