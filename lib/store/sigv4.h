/* sigv4: AWS Signature Version 4 for S3, header style. Pure functions; any thread.
 * Source: "Authenticating Requests (AWS Signature Version 4)", Amazon S3 API reference. */
#pragma once

#include "base/base.h"

#define SIGV4_UNSIGNED     "UNSIGNED-PAYLOAD"
#define SIGV4_EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

enum { SIGV4_DATE_SIZE = 17, SIGV4_MAX_PAIRS = 24 };

struct sigv4_pair {
    const char *name, *value;
};

/* The request to sign; nothing is percent-encoded. */
struct sigv4_request {
    const char *method;
    const char *path; /* "/bucket/key", plain UTF-8 */
    const struct sigv4_pair *query;
    int n_query;
    const struct sigv4_pair *headers; /* lower-case names, each once; must include host and x-amz-date */
    int n_headers;
    const char *payload_sha256; /* hex or SIGV4_UNSIGNED */
};

struct sigv4_key {
    const char *id, *secret, *region;
    const char *date; /* from sigv4_date: the value of x-amz-date */
};

/* RFC 3986: every byte except A-Z a-z 0-9 - _ . ~ becomes %XX; '/' is kept if slashes is set. */
void sigv4_encode(const char *raw, bool slashes, struct str *out);
/* Writes "a=1&b=" sorted by encoded name, then value; a name without value keeps its '='. The bytes sent are the bytes signed. */
int sigv4_query(const struct sigv4_pair *query, int n, struct str *out, struct err *err);
/* Formats seconds since 1970 as "20130524T000000Z". */
void sigv4_date(int64_t unix_s, char ret[SIGV4_DATE_SIZE]);
/* The value of the Authorization header. INVALID for more than SIGV4_MAX_PAIRS headers or parameters. */
int sigv4_sign(const struct sigv4_request *request, const struct sigv4_key *key, struct str *ret, struct err *err);
