/* fetch: HTTP requests on libcurl's multi interface, driven by a thread of its own. It neither follows redirects nor retries; the
 * caller interprets the answer. start, wait and done are thread-safe; the caller owns a request except while it is in progress. */
#pragma once

#include "store/crc.h"

enum { FETCH_MAX_HEADERS = 24, FETCH_NOTE_MAX = 16 << 10 };

/* Destination of the body of a 2xx answer: memory (buf, cap) or a file (fd from offset, at most cap bytes). A body longer than cap
 * is a failure. */
struct fetch_sink {
    void *buf;
    int fd; /* used when buf is NULL */
    int64_t offset;
    size_t cap, got;
    struct crc *crc; /* of the received bytes; may be NULL; borrowed */
};

/* The answer's headers that an object store client needs; "" = absent. */
struct fetch_headers {
    int64_t content_length; /* -1 = absent */
    char content_range[96], etag[80], last_modified[48], location[512], region[64], encryption[32];
    char checksum_sha256[64], checksum_crc[CRC_KINDS][32], checksum_type[32]; /* of the whole object */
    char meta_sha256[80], meta_md5[32];                                       /* as recorded by the uploader */
    int64_t date_s, retry_after_s;                                            /* -1 = absent */
    int64_t skew_s; /* date_s minus the local clock when the answer arrived */
};

struct fetch_request {
    /* set by the caller */
    const char *method, *url;
    const char *headers[FETCH_MAX_HEADERS]; /* "Name: value" */
    int n_headers;
    const void *body; /* sent unchanged; NULL = none */
    size_t body_len;
    int stall_s;         /* a transfer without a byte for this long fails; so does a GET below 1000 bytes/s */
    int timeout_ms;      /* limit of the whole request, connecting included; 0 = none */
    bool direct;         /* bypass any proxy */
    const char *ca_file; /* PEM; NULL = the system's */
    struct fetch_sink sink;
    /* set by the answer */
    int status;  /* HTTP status, 0 = none */
    int failure; /* 0 or libcurl's error code */
    char failure_text[160];
    struct fetch_headers answer;
    char note[FETCH_NOTE_MAX + 1]; /* body of an answer other than 2xx, truncated, NUL-terminated */
    size_t note_len;
    bool done;
    int sink_errno;                     /* errno of a failed write to the file */
    double seconds;                     /* duration, connecting included */
    int64_t received_bytes, sent_bytes; /* of bodies */
    /* private to the engine */
    void *handle, *header_list;
    size_t body_sent;
    bool cancelled;
    struct fetch_request *next;
};

struct fetch;
/* At most max_connections at a time; further requests wait in the engine. */
int fetch_open(int max_connections, struct fetch **ret, struct err *err);
/* No request may be in progress. Takes NULL. */
void fetch_close(struct fetch *f);
/* Starts a request; its answer fields are cleared. Strings and body are borrowed until it is done. */
void fetch_start(struct fetch *f, struct fetch_request *request);
bool fetch_done(struct fetch *f, const struct fetch_request *request);
/* Cancels the request; returns once the engine no longer uses it. */
void fetch_cancel(struct fetch *f, struct fetch_request *request);
/* Waits until any request of the engine has ended since the value in *seen (start with 0), or for timeout_ms; updates *seen. */
void fetch_wait(struct fetch *f, uint64_t *seen, int timeout_ms);
/* True if the server's certificate is of no CA that is known here. */
bool fetch_untrusted(const struct fetch_request *r);
/* True if the failure is one of the network (connect, stall, reset, short body), so that a retry may help. */
bool fetch_transient(const struct fetch_request *request);
