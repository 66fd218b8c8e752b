/* fetch: HTTP requests on libcurl's multi interface, driven by a thread of its own. Never follows a redirect, never retries: what
 * an answer means is the caller's business. Start, wait and done from any thread; a request belongs to its caller but while it is
 * under way. */
#ifndef BRR_STORE_FETCH_H
#define BRR_STORE_FETCH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/crc.h"

enum { FETCH_MAX_HEADERS = 24, FETCH_NOTE_MAX = 16 << 10 };

/* Where the body of a 2xx answer goes: memory (buf, cap) or a file (fd from offset, at most cap bytes). More than cap is a failure.
 */
struct fetch_sink {
    void *buf;
    int fd; /* used when buf is NULL */
    int64_t offset;
    size_t cap, got;
    struct crc *crc; /* of what arrived; may be NULL; the caller's */
};

/* Answer headers that an object store's client looks at; "" = absent. */
struct fetch_headers {
    int64_t content_length; /* -1 = absent */
    char content_range[96], etag[80], last_modified[48], location[512], region[64], encryption[32];
    char checksum_sha256[64], checksum_crc[CRC_KINDS][32], checksum_type[32]; /* of the whole object */
    char meta_sha256[80], meta_md5[32];                                       /* as an uploader noted it */
    int64_t date_s, retry_after_s;                                            /* -1 = absent */
    int64_t skew_s;                                                           /* date_s less our clock when it came */
};

struct fetch_request {
    /* asked */
    const char *method, *url;
    const char *headers[FETCH_MAX_HEADERS]; /* "Name: value" */
    int n_headers;
    const void *body; /* sent as it is; NULL = none */
    size_t body_len;
    int stall_s;    /* a transfer without a byte for so long has failed; so has a GET with less than 1000 bytes/s */
    int timeout_ms; /* so has one that takes longer in all, connecting included; 0 = no limit */
    bool direct;    /* past any proxy */
    struct fetch_sink sink;
    /* answered */
    int status;  /* HTTP status, 0 = none */
    int failure; /* 0 or what libcurl says went wrong */
    char failure_text[160];
    struct fetch_headers answer;
    char note[FETCH_NOTE_MAX + 1]; /* body of an answer other than 2xx, cut, NUL-terminated */
    size_t note_len;
    bool done;
    int sink_errno;                     /* the file could not be written */
    double seconds;                     /* it took, connecting included */
    int64_t received_bytes, sent_bytes; /* of bodies */
    /* the engine's own */
    void *handle, *header_list;
    size_t body_sent;
    bool cancelled;
    struct fetch_request *next;
};

struct fetch;
/* At most max_connections at a time; more requests wait in the engine. */
int fetch_open(int max_connections, struct fetch **ret, struct err *err);
/* Nothing may be under way. NULL is fine. */
void fetch_close(struct fetch *f);
/* Begin; the answered part is cleared. Strings and body stay the caller's until it is done. */
void fetch_start(struct fetch *f, struct fetch_request *request);
bool fetch_done(struct fetch *f, const struct fetch_request *request);
/* Give it up and return when the engine has let go of it. */
void fetch_cancel(struct fetch *f, struct fetch_request *request);
/* Until any request of the engine ended since the value in *seen (start with 0), or timeout_ms; *seen is renewed. */
void fetch_wait(struct fetch *f, uint64_t *seen, int timeout_ms);
/* Whether the failure is one of the way (connect, stall, reset, short body), worth another try. */
bool fetch_transient(const struct fetch_request *request);

#endif
