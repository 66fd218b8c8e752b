/* answer: the callbacks of libmicrohttpd for requests, and which path is answered by what. Threads of libmicrohttpd. */
#pragma once
#include <microhttpd.h>

/* ctx: the http_server. */
enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url, const char *method, const char *version,
                           const char *upload, size_t *upload_size, void **state);
void on_completed(void *ctx, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode why);
