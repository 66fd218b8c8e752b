/* brr.h: talk to brrd from C. The whole promise of libbrr; link with `pkg-config --cflags --libs brr`.
 *
 * A client is a connection; a call is one RPC as bytes of protobuf messages (proto/brr/v1, installed with the library); a stream
 * is one EEG recording or live source under a model, as plain C values. `proto/` and docs/protocol.md say what the messages mean.
 *
 * Units: _s seconds, _ms milliseconds, _uv microvolt, _hz hertz. Source samples are counted at the rate of the source, samples of
 * results at 256 Hz; both from 0 = the first sample. Times of day are milliseconds since 1970 (UTC).
 * Errors: functions return 0 (BRR_OK), a positive word (BRR_END, BRR_AGAIN) or a negative enum brr_code, the negated number of the
 * gRPC status; then *err, which the caller owns and which may be NULL, says why. Outputs named ret_ are written on success only.
 * Threads: a client may be used by any number of threads; a call or a stream by one at a time. The library never logs, exits
 * or installs signal handlers. Nothing here blocks for longer than the timeout given. Close calls and streams before their client.
 */
#ifndef BRR_H
#define BRR_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BRR_API __attribute__((visibility("default")))
#else
#define BRR_API
#endif

enum { BRR_API_VERSION = 1 };
#define BRR_DEFAULT_ENDPOINT "unix:/run/brrd/brrd.sock"

enum brr_code {
    BRR_OK = 0,
    BRR_END = 1,   /* no more messages: the call ended well */
    BRR_AGAIN = 2, /* nothing within the timeout, or no room: try again */
    BRR_CANCELLED = -1,
    BRR_UNKNOWN = -2,
    BRR_INVALID = -3,
    BRR_DEADLINE = -4,
    BRR_NOT_FOUND = -5,
    BRR_EXISTS = -6,
    BRR_DENIED = -7,
    BRR_EXHAUSTED = -8,
    BRR_PRECONDITION = -9,
    BRR_ABORTED = -10,
    BRR_RANGE = -11,
    BRR_UNSUPPORTED = -12,
    BRR_INTERNAL = -13,
    BRR_UNAVAILABLE = -14,
    BRR_DATA_LOSS = -15,
    BRR_UNAUTHENTICATED = -16,
};

struct brr_error {
    int code;               /* enum brr_code */
    char reason[64];        /* stable word for programs: "MONTAGE_MISMATCH", "OVERLOADED", …; "" when none was sent */
    char message[512];      /* one sentence for people: what, where, what was expected, the fix */
    char cause[256];        /* the underlying error, or "" */
    int64_t retry_after_ms; /* 0: a retry does not help */
};
/* "invalid_argument", "not_found", …; "ok" for 0. */
BRR_API const char *brr_code_name(int code);
/* Version of the library, "0.1.0". */
BRR_API const char *brr_library_version(void);

/* ---- connection ---- */

typedef struct brr_client brr_client;
/* endpoint: "unix:/path", "unix:///path" or "host:port"; NULL or "" = environment BRR_ENDPOINT, else the socket of a running `brrd
 * --user`, else BRR_DEFAULT_ENDPOINT. Up to eight endpoints, separated by commas, are daemons that share their streams
 * (sessions.shared): a stream moves to the next one when its own stays away; other calls go to the first. Sends nothing: the first
 * call shows if a daemon answers (BRR_UNAVAILABLE names the endpoint). INVALID: an endpoint of another form, or longer than 255
 * bytes. */
BRR_API int brr_connect(const char *endpoint, brr_client **ret, struct brr_error *err);

/* How to connect. NULL: the environment variable decides; "": none. */
struct brr_connect_options {
    const char *endpoint;   /* BRR_ENDPOINT, as for brr_connect */
    const char *tls_ca;     /* BRR_TLS_CA: PEM file of the CA behind the daemon's certificate; host:port is then reached by TLS */
    const char *tls_cert;   /* BRR_TLS_CERT: PEM file with this client's certificate, where the daemon asks for one */
    const char *tls_key;    /* BRR_TLS_KEY: its private key, readable by its owner alone */
    const char *token_file; /* BRR_TOKEN_FILE: file with one token, readable by its owner alone; its text is sent with every call */
};
/* brr_connect with options; options may be NULL. brr_connect itself takes all but the endpoint from the environment. Also NOT_FOUND
 * and DENIED for files that are missing or open to other users; PRECONDITION for files without certificate or token and for
 * a key that does not belong to the certificate; INVALID for options that do not go together, such as a token that would travel to
 * another machine without TLS. */
BRR_API int brr_connect_with(const struct brr_connect_options *options, brr_client **ret, struct brr_error *err);
/* Takes NULL. */
BRR_API void brr_disconnect(brr_client *client);
BRR_API const char *brr_endpoint(const brr_client *client);

/* ---- calls, as bytes of protobuf messages ---- */

/* Sends one request and receives one answer, which brr_free frees. */
struct brr_request {
    const char *method; /* "/brr.v1.Jobs/List" */
    const void *data;   /* the packed request message */
    size_t len;
    int64_t timeout_ms; /* 0 = 30 s */
};
BRR_API int brr_call(brr_client *client, const struct brr_request *request, void **ret, size_t *ret_len, struct brr_error *err);
BRR_API void brr_free(void *data);

/* A call with several messages in either direction: watch, logs, upload, download. */
typedef struct brr_rpc brr_rpc;
/* Starts the call. timeout_ms: deadline of the whole call, 0 = none. */
BRR_API int brr_rpc_open(brr_client *client, const char *method, int64_t timeout_ms, brr_rpc **ret, struct brr_error *err);
/* Sends one message; waits until the transport has accepted the previous one. BRR_AGAIN after timeout_ms: not sent, because the
 * daemon does not read at present (read its answers). After the call has ended: its status, or PRECONDITION when that was OK. */
BRR_API int brr_rpc_send(brr_rpc *rpc, const void *message, size_t len, int64_t timeout_ms, struct brr_error *err);
/* Ends the client's side: no further message follows. */
BRR_API int brr_rpc_half_close(brr_rpc *rpc, struct brr_error *err);
/* Receives the next message: bytes that are valid until the next brr_rpc_ function on this call. BRR_END when the call ended well,
 * BRR_AGAIN after timeout_ms (-1 = no limit), negative = the error that ended the call. */
BRR_API int brr_rpc_next(brr_rpc *rpc, int64_t timeout_ms, const void **ret, size_t *ret_len, struct brr_error *err);
/* Cancels a call that has not ended. Takes NULL. */
BRR_API void brr_rpc_close(brr_rpc *rpc);

/* ---- jobs, as plain values ---- */

enum brr_job_state {
    BRR_JOB_UNKNOWN,
    BRR_JOB_QUEUED,
    BRR_JOB_PREPARING,
    BRR_JOB_RUNNING,
    BRR_JOB_CHECKPOINTING,
    BRR_JOB_SUCCEEDED,
    BRR_JOB_FAILED,
    BRR_JOB_CANCELLED,
    BRR_JOB_INTERRUPTED,
};
BRR_API const char *brr_job_state_name(int state); /* "queued", … */

/* Texts that do not fit are truncated. */
struct brr_job {
    char id[64], kind[32], name[128], reason[512];
    char checkpoint[4096]; /* best, else last model file on the daemon's machine; "" = none */
    int state;             /* enum brr_job_state */
    int final;             /* 1: the job has ended, no message follows */
    char phase[32];        /* "cache", "train", "validate", … */
    int64_t step, steps;
    double loss;  /* NaN when unknown */
    double eta_s; /* NaN when unknown */
};

struct brr_job_file {
    const char *yaml;             /* text of the job file; local paths in it must be absolute */
    const char *name;             /* file name for error messages */
    const char *const *overrides; /* "a.b=value", applied in order */
    size_t n_overrides;
    const char *request_id; /* requests with the same id return the same job, so a retry is safe; NULL = always a new job */
};
/* Queues a job; its id is in ret->id. INVALID names file:line:column and the fault. */
BRR_API int brr_job_submit(brr_client *client, const struct brr_job_file *file, struct brr_job *ret, struct brr_error *err);
BRR_API int brr_job_get(brr_client *client, const char *id, struct brr_job *ret, struct brr_error *err);
/* Follows a job: brr_job_next returns its present state first and ret->final = 1 last, then BRR_END. */
BRR_API int brr_job_watch(brr_client *client, const char *id, brr_rpc **ret, struct brr_error *err);
BRR_API int brr_job_next(brr_rpc *watch, int64_t timeout_ms, struct brr_job *ret, struct brr_error *err);
/* The job's log lines, oldest first; follow: until it ends. The text of brr_log_next is valid until the next call. */
BRR_API int brr_job_logs(brr_client *client, const char *id, int follow, brr_rpc **ret, struct brr_error *err);
BRR_API int brr_log_next(brr_rpc *logs, int64_t timeout_ms, int64_t *ret_time_ms, const char **ret_text, struct brr_error *err);

/* ---- streams ---- */

/* Cuts. A session outlives its connection, and a restart of the daemon, for the daemon's limits.resume_ttl. The library keeps every
 * sample that the daemon does not have durably yet, connects again by itself with growing, random pauses (0.05 to 2 s), sends again
 * from where the daemon asks, and drops results and alarms that it has already: the messages are those of an undisturbed run.
 * Samples pushed meanwhile are queued; a full buffer is BRR_AGAIN, never a loss. The stream ends with an error when the daemon
 * stays away for resume_ms (UNAVAILABLE), has forgotten the session (ABORTED, SESSION_EXPIRED), or serves another model by now
 * (ABORTED).
 */

/* Limits of a stream's queues inside the library: bytes of samples where there is no resume, messages that wait to be taken. */
enum { BRR_STREAM_OUT_BYTES = 8 << 20, BRR_STREAM_IN_MESSAGES = 256 };

struct brr_stream_config {
    const char *model;           /* served name, "job:ID" or a checkpoint's path */
    const char *const *channels; /* labels of the pushed rows, in their order; the daemon selects those it needs */
    int n_channels;
    double rate_hz;
    const char *client_name; /* for people; never a patient's name; NULL = none */
    int realtime;            /* 1: live, served before replays; 2: the same, but of a recording, whose alarms are not live and which
                              * hooks do not hear; 0: as fast as possible, of a recording */
    int want_probabilities;  /* 1: results and provisional values contain the trace */
    double alarm_hop_s;      /* 0 = the daemon's default, negative = no alarms */
    int64_t start_time_ms;   /* time of day of sample 0, 0 = unknown */
    int64_t open_timeout_ms; /* time limit for loading the model, 0 = 120 s */
    int no_resume;           /* 1: the stream ends with its connection */
    int64_t resume_ms;       /* how long to try to reach a daemon that is away, 0 = its limits.resume_ttl, at least 120 s */
    int64_t buffer_bytes;    /* samples kept until they are durable; 0 = 64 MiB, or 150 s of samples if that is more */
    double threshold_on;     /* probability that begins an event or alarm, 0 = the model's */
    double threshold_off;    /* probability that ends it, 0 = the model's, but at most threshold_on */
    double alarm_rate;       /* 1, 5 or 10: alarms by the model's rule for that many false alarms per 24 h; 0: by the thresholds */
    const char *device;      /* name of the daemon's device that computes it, such as "cuda:1"; NULL = the daemon chooses */
    int64_t move_after_ms;   /* with several endpoints: how long to try the same daemon before the next one, 0 = 10 s */
    int partial;             /* so many channels may do if the montage lacks others, where the model takes it; 0 = all */
    const char *patient;     /* the same text for the same patient, never a name: what the newest stream of it has learned goes on
                              * (limits.patient_memory of the daemon); NULL = nothing goes from one stream to another */
};

/* The settings agreed with the daemon. Pointers are valid as long as the stream. */
struct brr_stream_info {
    const char *session_id, *model_sha256;
    const char *note;           /* how the channels were matched to the model's montage, or "" */
    const char *const *montage; /* the model's input channels */
    int n_montage;
    const int32_t *used; /* which of the channels are read */
    int n_used;
    int max_chunk_samples; /* the library cuts pushes to this size */
    double window_s, hop_s, alarm_hop_s;
    double threshold_on, threshold_off;
    int resumable; /* 1: the session outlives its connection */
    double alarm_threshold_on, alarm_threshold_off;
};

enum brr_message_kind { BRR_RESULT = 1, BRR_ALARM, BRR_PROVISIONAL, BRR_SUMMARY, BRR_RECONNECTED };

struct brr_event {
    int64_t first, end; /* samples [first, end) at 256 Hz */
    double confidence;  /* 0..1 */
};

/* Burst suppression of the minute that ends before sample `end` (256 Hz); values refer to the seconds that had samples. */
struct brr_suppression {
    int64_t end;
    double observed_s, ratio, bursts_per_minute; /* ratio: share that was suppressed, 0..1 */
    int channels;
    const float *channel_ratio, *channel_bursts_per_minute; /* (channels) of the model's montage */
};

/* One message of the daemon. Pointers are valid until the next brr_stream_next or brr_stream_close. */
struct brr_message {
    int kind;    /* enum brr_message_kind */
    int64_t seq; /* RESULT, ALARM: its number in the session, from 0 */
    /* RESULT: the record trace, final and in order; [first, first + samples) at 256 Hz. PROVISIONAL: the newest values, replaced by
     * a later RESULT. SUMMARY: the whole record. RECONNECTED: first = the source sample from which samples are sent again. */
    int64_t first, samples;
    int gap;                        /* RESULT: 1: these samples have no values, because the source had none */
    const float *probabilities;     /* (samples); NULL in gaps and unless requested */
    const struct brr_event *events; /* RESULT: the events that became final; SUMMARY: all events, or the first 65,536 */
    int n_events;
    struct { /* ALARM */
        int on;
        uint32_t channels; /* brr_message_channels; padding in earlier versions of the library */
        int64_t sample;    /* 256 Hz: the sample at which the rule holds */
        double probability;
        int64_t wall_time_ms; /* the daemon's clock at the decision */
    } alarm;
    struct { /* SUMMARY */
        int64_t source_samples, windows, gaps, duplicate_samples;
        double seizure_s;
        double observed_s, suppressed_s; /* looked at for burst suppression; suppressed */
        int64_t bursts;
    } summary;
    struct { /* RECONNECTED: for people; the messages go on as if nothing had happened */
        int64_t away_ms;
        int anew; /* 1: the daemon has no sample of the session, so all samples are sent again */
    } reconnected;
    const struct brr_suppression *suppression; /* RESULT: one for each second that became final */
    int n_suppression;
    const char *mislabelled; /* SUMMARY: channels that the samples show to be swapped, inverted or wrongly named, or "" */
    int learning_s;          /* SUMMARY: seconds of signal in which the model did not know the patient's own background */
};

/* The channels that carry event i of a message, or the alarm of one that goes on (i is ignored): bits in the order of
 * brr_stream_info.montage; 0: not known. */
BRR_API uint32_t brr_message_channels(const struct brr_message *message, int i);

/* Why an alarm went off: "ended", or why monitoring stopped while it was on: "gap", "electrodes", "closed" (the record ends); ""
 * for other messages and daemons that do not say. Valid as long as the message's pointers. */
BRR_API const char *brr_message_reason(const struct brr_message *message);

struct brr_stream_counts {
    int64_t pushed;   /* source samples accepted by the library, gaps included */
    int64_t received; /* acknowledged by the daemon */
    int64_t consumed; /* durable: need not be sent again */
    int64_t messages; /* waiting for brr_stream_next */
    int64_t reconnects;
    int connected; /* 0: the daemon is away, or has not answered yet */
    /* 1: the daemon cannot write snapshots (its results volume is full or does not answer), and this live stream goes on without:
     * it would not survive a crash of the daemon. In earlier versions of the library this was padding. */
    int unsaved;
};

typedef struct brr_stream brr_stream;
/* Opens a stream and waits for the daemon's answer. Errors (reason): NOT_FOUND (model), PRECONDITION (MONTAGE_MISMATCH: names the
 * missing electrodes and the given labels), EXHAUSTED (OVERLOADED: retry_after_ms), UNAVAILABLE. */
BRR_API int brr_stream_open(brr_client *client, const struct brr_stream_config *config, brr_stream **ret, struct brr_error *err);
BRR_API const struct brr_stream_info *brr_stream_info(const brr_stream *stream);
/* Pushes the next n samples of every channel as float32 µV, channel-major: uv[c · n + i]. Copied; cut into chunks of the daemon's
 * size. All or nothing: BRR_AGAIN when there was no room within timeout_ms; then take messages with brr_stream_next and push the
 * same samples again. A push larger than the buffer waits for an empty one. Negative: the stream has ended with this error. */
BRR_API int brr_stream_push(brr_stream *stream, const float *uv, int64_t n, int64_t timeout_ms, struct brr_error *err);
/* The same with an explicit index of the first sample: the daemon drops samples it already has; a hole becomes a gap. */
BRR_API int brr_stream_push_at(brr_stream *stream, int64_t first, const float *uv, int64_t n, int64_t timeout_ms,
                               struct brr_error *err);
/* Declares the next n source samples lost or missing. cause: for the daemon's records, or NULL. */
BRR_API int brr_stream_gap(brr_stream *stream, int64_t n, const char *cause, struct brr_error *err);
/* Ends the recording; the last results and a SUMMARY follow. */
BRR_API int brr_stream_finish(brr_stream *stream, struct brr_error *err);
/* Returns the next message and sends queued samples meanwhile. BRR_END after the SUMMARY, BRR_AGAIN after timeout_ms (0 = return at
 * once, -1 = no limit), negative = the stream has ended with this error. A live source calls it at least as often as it pushes. */
BRR_API int brr_stream_next(brr_stream *stream, int64_t timeout_ms, struct brr_message *ret, struct brr_error *err);
BRR_API void brr_stream_counts(const brr_stream *stream, struct brr_stream_counts *ret);
/* Closes the connection and frees the stream. Takes NULL. Before the SUMMARY this is a cut for the daemon: a session that is not
 * resumable ends at once; a resumable one waits for limits.resume_ttl, counts towards limits.sessions, and can no longer be resumed
 * through this library. To end it earlier, call brr_stream_finish and take messages until BRR_END, or call brr.v1.Sessions/Close
 * with the session_id of brr_stream_info. */
BRR_API void brr_stream_close(brr_stream *stream);

/* ---- many streams on one thread ---- */

/* Events of streams that brr_loop_run processes before it returns. */
enum { BRR_LOOP_EVENTS = 1024 };

/* A loop serves any number of streams on the thread that calls brr_loop_run, and tells the handler of each what happened. In a
 * handler every function may be called on its stream (no function of streams waits then, whatever its timeout), also
 * brr_stream_close, but not brr_loop_run or brr_loop_free. Any function of the handler may be NULL. */
typedef struct brr_loop brr_loop;
struct brr_handler {
    void *ctx;
    void (*opened)(void *ctx, brr_stream *stream); /* brr_stream_info is known; samples may be pushed from now on */
    void (*message)(void *ctx, brr_stream *stream, const struct brr_message *message);
    void (*acked)(void *ctx, brr_stream *stream); /* brr_stream_counts: received or consumed have changed */
    void (*room)(void *ctx, brr_stream *stream);  /* what a push refused with BRR_AGAIN fits now */
    /* Nothing follows; err is NULL after a SUMMARY. The stream still has to be closed. */
    void (*ended)(void *ctx, brr_stream *stream, const struct brr_error *err);
};
BRR_API int brr_loop_new(brr_loop **ret, struct brr_error *err);
/* Opens a stream without waiting: `opened`, or `ended` with the error, is called by brr_loop_run. Errors here: INVALID, EXHAUSTED.
 */
BRR_API int brr_loop_open(brr_loop *loop, brr_client *client, const struct brr_stream_config *config,
                          const struct brr_handler *handler, brr_stream **ret, struct brr_error *err);
/* Processes events until handlers were called, or timeout_ms have passed (0 = only what has happened already, -1 = no limit).
 * Returns how many calls of handlers there were. */
BRR_API int brr_loop_run(brr_loop *loop, int64_t timeout_ms);
/* Closes the streams that are left. Takes NULL. */
BRR_API void brr_loop_free(brr_loop *loop);

/* ---- networks of spiking neurons (docs/burst.md) ---- */

/* Networks live in the daemon's memory until they are destroyed or the daemon ends; any client that may submit jobs may use them.
 * Calls for one network run one after another. Errors of all functions: NOT_FOUND: no network of this name. */

/* Texts that do not fit are truncated. */
struct brr_network {
    char name[64], device[32];
    int64_t neurons, synapses;
    int areas, observers, every_tick;
    int64_t tick; /* the newest that has run, 0 before the first */
    int64_t bytes, budget_bytes;
    int64_t pending;     /* injections that wait for their tick */
    int64_t fired_total; /* spikes so far */
};

struct brr_network_options {
    const char *name;     /* [a-z0-9-]+, at most 63 bytes; NULL = the daemon picks one */
    int64_t budget_bytes; /* memory that the network may use, 0 = the daemon's limit */
    int64_t max_pending;  /* injections that may wait, 0 = the daemon's default */
    int every_tick;       /* 1: leak and refractory advance in every tick, also without input */
    int64_t timeout_ms;   /* of the transfer, 0 = 600 s */
    const char *device; /* name of the daemon's device, such as "cuda:1"; "N": so many of one kind share the network; NULL = the one
                           with the most free memory */
};
/* Sends the network file or snapshot at path; the daemon checks it and builds the network. options may be NULL. INVALID names array
 * and index; EXHAUSTED: more bytes than the budget; EXISTS: the name is taken. After an error there is no network. */
BRR_API int brr_network_create(brr_client *client, const char *path, const struct brr_network_options *options,
                               struct brr_network *ret, struct brr_error *err);
/* *ret: all networks, to be freed with brr_free. */
BRR_API int brr_network_list(brr_client *client, struct brr_network **ret, size_t *ret_n, struct brr_error *err);
BRR_API int brr_network_destroy(brr_client *client, const char *name, struct brr_error *err);

/* A potential for a neuron in a tick that has not run; several for one neuron and tick add up. */
struct brr_injection {
    int64_t tick; /* from 1 on; 0 in all rows of a call: the next tick, whichever that is */
    uint32_t id;
    float potential;
};
enum { BRR_NETWORK_MOST_INJECTIONS = 1 << 17 }; /* in one call */
/* All or none of them: INVALID and RANGE name the index. *ret_pending (may be NULL): how many wait now. */
BRR_API int brr_network_inject(brr_client *client, const char *name, const struct brr_injection *list, size_t n,
                               int64_t *ret_pending, struct brr_error *err);

struct brr_neuron_change {
    uint32_t id;
    const char *field; /* of the network file: "threshold", "leak", … */
    double value;
    int remove; /* 1: the neuron; field and value are not read */
};
struct brr_synapse_change { /* of all synapses from source to target */
    uint32_t source, target;
    int weight, psp, type; /* -1 keeps the present value */
    int remove;
};
struct brr_area_change {
    int index, psp_divide, mp_driven_psp;
    double power;
};
struct brr_network_changes {
    const struct brr_neuron_change *neurons;
    const struct brr_synapse_change *synapses;
    const struct brr_area_change *areas;
    size_t n_neurons, n_synapses, n_areas;
};
/* Changes act from the next tick on, in the order neurons, synapses, areas. The first that fails ends the call and is named; those
 * before it stay. */
BRR_API int brr_network_patch(brr_client *client, const char *name, const struct brr_network_changes *changes,
                              struct brr_error *err);

struct brr_spike {
    int64_t tick;
    uint32_t id;
};
enum { BRR_STEP_NEURONS = 1 << 20, BRR_STEP_SPIKES = 1 << 18 };
struct brr_step_request {
    const char *name;
    int64_t ticks;
    int want_spikes;    /* 1: which neurons fired. INVALID for networks of more than BRR_STEP_NEURONS; observe them instead */
    int64_t timeout_ms; /* 0 = 30 s */
    int want_membranes; /* 1: after the last tick; for networks as large */
};
struct brr_step {
    int64_t ticks;            /* that ran: fewer than wanted once there are BRR_STEP_SPIKES; call again for the rest */
    int64_t tick;             /* the newest */
    int64_t fired, events;    /* spikes, and synapses that delivered, in these ticks */
    double seconds;           /* that the ticks took in the daemon */
    struct brr_spike *spikes; /* by tick and id, to be freed with brr_free; NULL unless wanted */
    size_t n_spikes;
    float *membranes; /* of all neurons, to be freed with brr_free; NULL unless wanted */
    size_t n_membranes;
};
/* Runs so many ticks. */
BRR_API int brr_network_step(brr_client *client, const struct brr_step_request *request, struct brr_step *ret,
                             struct brr_error *err);

/* Follows a network while any client steps it: a frame for each tick that runs after brr_network_observe has returned. Frames wait
 * in the daemon, bounded by number, by 16 MiB, and by 256 MiB for all observers; the network never waits for an observer: when it
 * reads too slowly, the oldest frames are dropped and counted. */
typedef struct brr_observer brr_observer;
struct brr_frame { /* one tick */
    int64_t tick;
    const uint32_t *ids; /* (n_ids) of the neurons that fired, ascending; valid until the next brr_observer_ function */
    size_t n_ids;
    int64_t candidates; /* neurons with input */
};
/* queue_frames: that may wait, at most 65536; 0 = 4096. */
BRR_API int brr_network_observe(brr_client *client, const char *name, int queue_frames, brr_observer **ret, struct brr_error *err);
/* The same, and the frames of so many of the newest ticks first, without candidates: the daemon keeps those of 1,024 ticks, of at
 * most 1,048,576 spikes. brr_observer_past: how many there are. */
BRR_API int brr_network_observe_from(brr_client *client, const char *name, int64_t last_ticks, int queue_frames, brr_observer **ret,
                                     struct brr_error *err);
BRR_API int64_t brr_observer_past(const brr_observer *observer);
/* Returns the next frame. BRR_END after the network was destroyed, BRR_AGAIN after timeout_ms (0 = return at once, -1 = no limit).
 */
BRR_API int brr_observer_next(brr_observer *observer, int64_t timeout_ms, struct brr_frame *ret, struct brr_error *err);
/* Frames that this observer has lost so far. */
BRR_API int64_t brr_observer_missed(const brr_observer *observer);
/* Takes NULL. */
BRR_API void brr_observer_close(brr_observer *observer);

/* Writes network and state to a file (atomic); brr_network_create and brr_network_restore take it. timeout_ms: 0 = 600 s. */
BRR_API int brr_network_snapshot(brr_client *client, const char *name, const char *path, int64_t timeout_ms, int64_t *ret_bytes,
                                 struct brr_error *err);
/* The network becomes the one of a snapshot or network file: arrays, state and tick; its name, options and observers stay. After an
 * error it is unchanged. timeout_ms: 0 = 600 s. */
BRR_API int brr_network_restore(brr_client *client, const char *name, const char *path, int64_t timeout_ms, struct brr_network *ret,
                                struct brr_error *err);

#ifdef __cplusplus
}
#endif
#endif
