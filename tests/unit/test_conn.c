/* What libbrr makes of an end of a call that is the transport's, not the daemon's word. */

#include "client/brr.h"
#include "unit/cmocka_all.h"
#include "unit/temp_dir.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>

#include <pthread.h>

struct stopping {
    grpc_server *server;
    grpc_completion_queue *queue;
};

static void *cancel_each(void *arg) {
    struct stopping *s = arg;
    grpc_call *call = NULL;
    grpc_call_details details;
    grpc_metadata_array metadata;
    grpc_call_details_init(&details);
    grpc_metadata_array_init(&metadata);
    while (!grpc_server_request_call(s->server, &call, &details, &metadata, s->queue, s->queue, s)) {
        const grpc_event e = grpc_completion_queue_next(s->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        if (e.tag != s || !e.success)
            break;
        grpc_call_cancel(call, NULL);
        grpc_call_unref(call);
    }
    grpc_call_details_destroy(&details);
    grpc_metadata_array_destroy(&metadata);
    return NULL;
}

/* A daemon that gives a call up without a word. A live source goes on after a lost connection, not after what a daemon says. */
static void a_call_that_is_cut_without_a_word_is_a_lost_connection(void **state) {
    char endpoint[600];
    assert_true(str_format(endpoint, sizeof endpoint, "unix:%s", in_dir(state, "s.sock")));
    grpc_init();
    struct stopping s = {grpc_server_create(NULL, NULL), grpc_completion_queue_create_for_next(NULL)};
    grpc_server_credentials *open = grpc_insecure_server_credentials_create();
    assert_true(grpc_server_add_http2_port(s.server, endpoint, open));
    grpc_server_credentials_release(open);
    grpc_server_register_completion_queue(s.server, s.queue, NULL);
    grpc_server_start(s.server);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_each, &s), 0);

    brr_client *client;
    struct brr_error err = {0};
    void *answer;
    size_t n;
    brr_stream *stream;
    assert_int_equal(brr_connect(endpoint, &client, &err), 0);
    assert_int_equal(brr_call(client, &(struct brr_request){.method = "/brr.v1.Jobs/List"}, &answer, &n, &err), BRR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "was lost"));
    const struct brr_stream_config config = {
        .model = "ward", .channels = (const char *const[]){"Fp1"}, .n_channels = 1, .rate_hz = 256};
    assert_int_equal(brr_stream_open(client, &config, &stream, &err), BRR_UNAVAILABLE);
    brr_disconnect(client);

    grpc_server_shutdown_and_notify(s.server, s.queue, NULL);
    pthread_join(thread, NULL);
    grpc_completion_queue_shutdown(s.queue);
    while (grpc_completion_queue_next(s.queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).type != GRPC_QUEUE_SHUTDOWN)
        ;
    grpc_server_destroy(s.server);
    grpc_completion_queue_destroy(s.queue);
    grpc_shutdown();
}

int main(void) {
    const struct CMUnitTest tests[] = {in_temp_dir(a_call_that_is_cut_without_a_word_is_a_lost_connection)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
