#include "post/mail.h"

#include <curl/curl.h>
#include <openssl/evp.h>

enum {
    MAIL_BYTES = 256 * 1024,
    SUBJECT_BYTES = 200,
    WORD_BYTES = 42, /* of an encoded word of a header: 56 characters in base64 */
    LINE_BYTES = 57  /* of a line of the text: 76 characters in base64 */
};

bool mail_is_address(const char *text) {
    const char *at = strchr(text, '@');
    for (const char *p = text; *p; p++)
        if (!isgraph((unsigned char)*p) || strchr("<>(),;:\\\"[]", *p))
            return false;
    return at && at > text && at[1] && !strchr(at + 1, '@');
}

/* ---- the message (RFC 5322): the text in base64, so that its lines may be of any length ---- */

static void put_base64(struct str *out, const char *data, size_t len) {
    unsigned char encoded[4 * (LINE_BYTES + 2) / 3 + 1];
    const int n = EVP_EncodeBlock(encoded, (const unsigned char *)data, (int)len);
    str_append(out, (const char *)encoded, (size_t)n);
}

/* The first line as encoded words (RFC 2047), cut between characters. */
static void put_subject(struct str *out, const char *text) {
    char line[SUBJECT_BYTES];
    str_format(line, sizeof line, "%.*s", (int)strcspn(text, "\r\n"), text);
    for (const char *at = line; *at;) {
        size_t n = strlen(at) < WORD_BYTES ? strlen(at) : WORD_BYTES;
        while (n > 1 && ((unsigned char)at[n] & 0xc0) == 0x80)
            n--;
        str_puts(out, at == line ? "=?UTF-8?B?" : "\r\n =?UTF-8?B?");
        put_base64(out, at, n);
        str_puts(out, "?=");
        at += n;
    }
}

static void put_message(struct str *out, const struct mail *m) {
    char date[64] = "";
    struct tm tm;
    const time_t t = (time_t)(m->sent_ms / 1000);
    static const char *const days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    if (gmtime_r(&t, &tm))
        str_format(date, sizeof date, "%s, %d %s %d %02d:%02d:%02d +0000", days[tm.tm_wday], tm.tm_mday, months[tm.tm_mon],
                   tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
    str_printf(out, "Date: %s\r\nFrom: brrd <%s>\r\nTo: ", date, m->from);
    for (int i = 0; m->to[i]; i++)
        str_printf(out, "%s%s", i ? ",\r\n " : "", m->to[i]);
    str_printf(out, "\r\nMessage-ID: <%s@brrd>\r\nSubject: ", m->id);
    put_subject(out, m->text);
    str_puts(out, "\r\nAuto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
                  "Content-Transfer-Encoding: base64\r\n\r\n");
    for (size_t at = 0, len = strlen(m->text); at < len; at += LINE_BYTES) {
        put_base64(out, m->text + at, len - at < LINE_BYTES ? len - at : LINE_BYTES);
        str_puts(out, "\r\n");
    }
}

/* ---- the transfer ---- */

struct reading {
    const char *at;
    size_t left;
};

static size_t on_read(char *to, size_t size, size_t n, void *ctx) {
    struct reading *r = ctx;
    const size_t len = size * n < r->left ? size * n : r->left;
    memcpy(to, r->at, len);
    r->at += len;
    r->left -= len;
    return len;
}

static int on_progress(void *stop, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    (void)a, (void)b, (void)c, (void)d;
    return stop && atomic_load((const atomic_bool *)stop);
}

/* Which address libcurl asked for last, and what the server answered: libcurl tells it only as what it logs. */
struct refusals {
    char address[260]; /* "" = the answer is another command's */
    char *said;        /* MAIL_REFUSED_SIZE bytes */
};

static int on_protocol(CURL *curl, curl_infotype type, char *data, size_t len, void *ctx) {
    static const char command[] = "RCPT TO:<";
    struct refusals *r = ctx;
    const size_t n = sizeof command - 1;
    (void)curl;
    if (type == CURLINFO_HEADER_OUT) {
        const char *end = len > n && !memcmp(data, command, n) ? memchr(data, '>', len) : NULL;
        str_format(r->address, sizeof r->address, "%.*s", end ? (int)(end - data - (ptrdiff_t)n) : 0, end ? data + n : "");
    } else if (type == CURLINFO_HEADER_IN && *r->address && (len < 4 || data[3] != '-')) { /* '-': more lines follow */
        while (len && (data[len - 1] == '\r' || data[len - 1] == '\n'))
            len--;
        const size_t at = strlen(r->said);
        if (len && data[0] >= '4')
            str_format(r->said + at, MAIL_REFUSED_SIZE - at, "%s%s: %.*s", at ? "; " : "", r->address, (int)len, data);
        r->address[0] = '\0';
    }
    return 0;
}

static void set_up(CURL *curl, const struct mail *m, struct curl_slist *to, const char *from, struct reading *reading) {
    const bool clear = str_url_is_loopback(m->url) && !m->ca;
    curl_easy_setopt(curl, CURLOPT_URL, m->url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "smtp,smtps");
    curl_easy_setopt(curl, CURLOPT_USE_SSL, clear ? (long)CURLUSESSL_NONE : (long)CURLUSESSL_ALL);
    curl_easy_setopt(curl, CURLOPT_MAIL_FROM, from);
    curl_easy_setopt(curl, CURLOPT_MAIL_RCPT, to);
    curl_easy_setopt(curl, CURLOPT_MAIL_RCPT_ALLLOWFAILS, m->all ? 0L : 1L);
    if (m->user) {
        curl_easy_setopt(curl, CURLOPT_USERNAME, m->user);
        curl_easy_setopt(curl, CURLOPT_PASSWORD, m->password);
    }
    curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_read);
    curl_easy_setopt(curl, CURLOPT_READDATA, reading);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)m->timeout_ms);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, (void *)(uintptr_t)m->stop);
    struct curl_blob ca = {.data = (void *)(uintptr_t)m->ca, .len = m->ca ? strlen(m->ca) : 0, .flags = CURL_BLOB_NOCOPY};
    if (m->ca)
        curl_easy_setopt(curl, CURLOPT_CAINFO_BLOB, &ca);
}

static int transfer(const struct mail *m, struct curl_slist *to, struct reading *reading, char ret_refused[MAIL_REFUSED_SIZE],
                    struct err *err) {
    struct refusals refusals = {.said = ret_refused};
    const char *name = m->name ? m->name : m->url;
    char from[260], why[CURL_ERROR_SIZE] = "";
    long reply = 0;
    CURL *curl = curl_easy_init();
    if (!curl)
        return err_set(err, ERR_UNAVAILABLE, "out of memory for a mail to %.200s", name);
    str_format(from, sizeof from, "<%s>", m->from);
    set_up(curl, m, to, from, reading);
    curl_easy_setopt(curl, CURLOPT_VERBOSE, 1L);
    curl_easy_setopt(curl, CURLOPT_DEBUGFUNCTION, on_protocol);
    curl_easy_setopt(curl, CURLOPT_DEBUGDATA, &refusals);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
    const CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &reply);
    curl_easy_cleanup(curl);
    if (code == CURLE_OK)
        return 0;
    /* A server that says no to one address and then says nothing has not refused the mail. */
    const bool silent = code == CURLE_OPERATION_TIMEDOUT || code == CURLE_RECV_ERROR || code == CURLE_GOT_NOTHING ||
                        code == CURLE_ABORTED_BY_CALLBACK;
    return err_set(err, !silent && reply >= 500 && reply < 600 ? ERR_INVALID : ERR_UNAVAILABLE, "%.200s: %s", name,
                   *why ? why : curl_easy_strerror(code));
}

int mail_send(const struct mail *m, char ret_refused[MAIL_REFUSED_SIZE], struct err *err) {
    struct curl_slist *to = NULL;
    struct str message = str_of(MAIL_BYTES);
    char address[260];
    int rc = 0;
    ret_refused[0] = '\0';
    put_message(&message, m);
    for (int i = 0; m->to[i] && !rc; i++) {
        str_format(address, sizeof address, "<%s>", m->to[i]);
        struct curl_slist *more = curl_slist_append(to, address);
        to = more ? more : to;
        rc = more ? 0 : err_set(err, ERR_UNAVAILABLE, "out of memory for a mail");
    }
    if (!str_ok(&message) && !rc)
        rc = err_set(err, ERR_UNAVAILABLE, "out of memory for a mail");
    struct reading reading = {.at = str_cstr(&message), .left = message.len};
    rc = rc ? rc : transfer(m, to, &reading, ret_refused, err);
    curl_slist_free_all(to);
    str_done(&message);
    return rc;
}
