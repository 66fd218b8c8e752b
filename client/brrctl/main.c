/* brrctl: the command line of brrd. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"

static const struct argument_table local = {.rows = NULL, .local = true};

static const struct command commands[] = {
    {"submit", "FILE", &submit_arguments, "queue a job file", cmd_submit, 1, 1,
     "Relative paths in FILE are relative to its folder, paths in --set to the working directory. data.source is a path here only\n"
     "with file:// (file://eeg); without, it is a folder below paths.data of the daemon. With --watch the exit code is that of\n"
     "`brrctl watch`.\n"
     "example: brrctl submit configs/tiny.yaml --set data.source=file:///data/eeg --watch",
     NULL},
    {"validate", "FILE", &validate_arguments, "show what a job would need, before it runs", cmd_validate, 1, 1,
     "Memory, steps and a time estimate from a short measurement of the device. Exit 1 if the job does not fit.\n"
     "example: brrctl validate configs/train_a100.yaml --set training.micro_batch_size=8",
     NULL},
    {"keys", "[KIND]", &local, "list the kinds of job and every key of their files; works without a daemon", cmd_keys, 0, 1,
     "Shows meaning, accepted values and default of each key, for one kind or all; docs/jobs.md has the same as tables.\n"
     "example: brrctl keys train | grep -A1 data.balance",
     NULL},
    {"jobs", "", &arguments_none, "list jobs, newest first", cmd_jobs, 0, 0, "example: brrctl jobs --json", NULL},
    {"job", "ID", &job_arguments, "show one job, or its curves as CSV", cmd_job, 1, 1,
     "ID: the id, or the first characters of it that no other job has (also for watch, logs, cancel and resume).\n"
     "example: brrctl job train-260131-1\n"
     "example: brrctl job train-260131-1 --csv > curves.csv",
     NULL},
    {"sweep", "FILE", &sweep_arguments,
     "train with all combinations of some keys, and for each left-out patient; one table of scores", cmd_sweep, 1, 1,
     "Each training is a job of the queue, or of --executor. With --folds a training neither trains nor validates on the patients "
     "that it\n"
     "leaves out; an evaluate job scores its model on them, and the row `pooled` adds up what the folds found. Jobs that are "
     "queued\n"
     "go on if the command ends.\n"
     "example: brrctl sweep configs/tiny.yaml --grid training.learning_rate=1e-3,2e-3 --grid model.d_state=8,16\n"
     "example: brrctl sweep configs/chbmit.yaml --folds patients --executor cluster --output folds.tsv",
     NULL},
    {"compare", "JOB JOB", &compare_arguments, "show what differs between two jobs: keys, results, curves", cmd_compare, 2, 2,
     "Keys that only one job file has are compared with \"(default)\".\n"
     "example: brrctl compare train-260131-1 train-260131-2 --plot curves.png",
     NULL},
    {"watch", "ID", &arguments_none, "follow a job to its end; Ctrl-C detaches", cmd_watch, 1, 1,
     "Exit 0 when it succeeded, or was interrupted with a checkpoint, else 1.\nexample: brrctl watch train-260131-1", NULL},
    {"logs", "ID", &logs_arguments, "print the log of a job", cmd_logs, 1, 1, "example: brrctl logs train-260131-1 --follow", NULL},
    {"cancel", "ID…", &cancel_arguments, "cancel jobs; running ones save first, and checkpoints stay", cmd_cancel, 1, -1,
     "example: brrctl cancel train-260131-1", NULL},
    {"delete", "ID", &arguments_none, "delete a job that has ended, with its checkpoints and its folder", cmd_delete, 1, 1,
     "Refused while a checkpoint is pinned or serves, or a job that has not ended names one.\n"
     "example: brrctl delete train-260131-1",
     NULL},
    {"resume", "ID", &resume_arguments, "queue an interrupted, failed or cancelled job again", cmd_resume, 1, 1,
     "The job continues from its newest valid checkpoint; only limits.* may change.\n"
     "example: brrctl resume train-260131-1 --set limits.wall_clock=24h",
     NULL},
    {"stream", "FILE|-", &stream_arguments, "run a recording through a model; print events as they become final", cmd_stream, 1, 1,
     "FILE is EDF, EDF+ or BDF; its samples are sent unmodified. --output is a file or a folder (NAME_events.tsv).\n"
     "--format: tsv; edf+ or mne: annotations; csv_bi: for TUSZ tools; json: for programs.\n"
     "-       read the same formats from standard input, record by record, until the input ends\n"
     "--follow  FILE is still being written: complete records are sent as they are added, whatever record count the header\n"
     "        has, until the file has not grown for --idle-timeout seconds (120). Ctrl-C ends both with the results so far;\n"
     "        a second Ctrl-C kills. Results are bit-identical to those of the finished file.\n"
     "        The daemon ends a stream without samples after its limits.session_idle (5m): a longer pause is an error.\n"
     "        Reference events come only from --reference, and --plot needs a finished file.\n"
     "A stream outlives a cut connection and a restart of the daemon for the daemon's limits.resume_ttl (2 min), and then writes\n"
     "the files of an undisturbed run; with --no-resume it ends at the first cut.\n"
     "example: recorder | brrctl stream - --model best --alarms\n"
     "example: brrctl stream sub-01_run-01_eeg.edf --model job:train-260131-1 --plot trace.svg",
     NULL},
    {"sessions", "[list|observe|close] [ID]", &arguments_none, "list open streams, follow one live, or end one", cmd_sessions, 0, 2,
     "  observe ID   probability, alarms and events of a stream as they come: drawn in a terminal, else one line each\n"
     "  close ID     end it for its client; for whoever opened it, and the role admin\n"
     "example: brrctl sessions observe 6f1c2a90b4d7e35f8812c6aa01d94e7b",
     NULL},
    {"journal", "", &journal_arguments, "show what happened to each stream: alarms, events, gaps, quality, connections",
     cmd_journal, 0, 0,
     "From the daemon's disk, so also of streams that have ended and of times before a restart. Without --since the newest 100\n"
     "entries. Kinds: alarm_on alarm_off event gap quality opened resumed lost restored ended. `received` is the daemon's clock,\n"
     "`recorded` the recording's, where it says when it began; both are UTC. A\n"
     "date in parentheses is more than a day from `received`. `at` counts from the first sample.\n"
     "example: brrctl journal --bed 'icu-*' --since 12h --kind alarm_on",
     NULL},
    {"alarms", "[list|ack|silence|mark|note|standby|test|report|export] [ALARM|BED] [...]", &alarms_arguments,
     "list the alarms of beds, and answer them", cmd_alarms, 0, 3,
     "  ack ALARM                    acknowledge: sound and escalation of this alarm end on all screens\n"
     "  silence ALARM [--for 2m]     no sound for so long, at most 10m, or until a new alarm\n"
     "  mark ALARM true|false|unclear\n"
     "  note ALARM TEXT              at most 200 bytes\n"
     "  standby BED 30m|off          not monitored for so long, at most 24h: no technical alarms\n"
     "  test BED                     a test alarm of 20 s on pages and hooks, which escalates until it is acknowledged\n"
     "  report [--since 12h]         for each bed: alarms, marks, how long until somebody acknowledged\n"
     "  export --as labels --output DIR\n"
     "                               the marks as label files (events.tsv), one for each stream: true is sz over the event that\n"
     "                               overlaps the alarm, false is bckg, all other time is unknown\n"
     "ALARM: the id that `brrctl alarms` and the page show. Answers need the word `answer` in the token's line, or the role "
     "admin.\n"
     "example: brrctl alarms ack 6f1c2a90b4d7e35f8812c6aa01d94e7b-15360 --person 'Ana B'",
     NULL},
    {"hooks", "test [NAME]", &arguments_none, "send a test alarm to the hooks of daemon.yaml, or to one of them", cmd_hooks, 1, 2,
     "One attempt each; exit 1 if one failed. The text says `test`: true. Needs the role admin.\n"
     "example: brrctl hooks test pager",
     NULL},
    {"detect", "FILE|DIR...|URL|job:ID", &detect_arguments, "run many recordings through a model; write one events file each",
     cmd_detect, 1, -1,
     "Folders are searched; OUTPUT/<path below the folder> with _eeg.edf (or .edf) replaced by _events.tsv is written;\n"
     "other --formats write _annotations.edf (EDF+), _annotations.txt (MNE), .csv_bi, _annotations.json.\n"
     "--bids makes OUTPUT a BIDS dataset: sub-LABEL/eeg/sub-LABEL_task-LABEL_run-NN_eeg.edf (linked or copied), events, side "
     "files.\n"
     "Recordings that cannot be read are listed at the end (exit 1); all others are processed.\n"
     "URL     store://NAME/prefix of the daemon's stores, or one recording there: the daemon runs them as a job, and brrctl "
     "writes\n"
     "        the same files here\n"
     "job:ID  wait for such a job again after Ctrl-C or a lost connection (the job continues), and write its files\n"
     "example: brrctl detect /data/eeg --model best --output /data/hypothesis && brrctl score /data/eeg /data/hypothesis",
     NULL},
    {"score", "REF HYP", &score_arguments, "score event files or directories; works without a daemon", cmd_score, 2, 2,
     "REF and HYP are two files, or two folders whose files are paired by their paths below them. A file is an event file of any\n"
     "--format of detect, a TUSZ csv, or an EDF or BDF recording, whose labels are found as a training finds them. The length\n"
     "of a recording is its header's, else what the label files state.\n"
     "example: brrctl score /data/reference /data/hypothesis --json",
     NULL},
    {"tune", "MODEL DIR", &tune_arguments, "choose a model's thresholds on labelled recordings; write a new model file", cmd_tune,
     2, 2,
     "MODEL: a served or built-in name, job:ID, store://NAME/KEY or a model file. DIR: a folder, or store://NAME/prefix. The "
     "daemon runs the\n"
     "recordings as an evaluate job, and chooses the thresholds as a validation does: by event F1, or with --target-fa the most\n"
     "sensitive pair within so many false alarms. MODEL itself stays as it is. One pair only: stream and detect --on --off.\n"
     "The new file also has rules for alarms: stream and detect --alarm-rate 1, 5 or 10 (false alarms in 24 h).\n"
     "With --reject it drops short or faint events of more sensitive thresholds, if that is better on patients left out.\n"
     "example: brrctl tune job:train-260131-1 /data/labelled --out tuned.safetensors",
     NULL},
    {"ensemble", "MODEL.safetensors...", &ensemble_arguments, "write one model file of several; works without a daemon",
     cmd_ensemble, 2, 8,
     "2 to 8 model files of one shape and one input, such as trainings that differ in their seed; `checkpoint get` fetches them.\n"
     "Their networks answer together, with the mean of their log-odds, wherever a model is named: load, stream, detect, evaluate.\n"
     "It takes their time and memory together. Choose its thresholds with tune.\n"
     "example: brrctl ensemble a.safetensors b.safetensors c.safetensors --out ward.safetensors",
     NULL},
    {"checkpoints", "[JOB]", &arguments_none, "list model files of jobs, and uploads", cmd_checkpoints, 0, 1,
     "example: brrctl checkpoints train-260131-1", NULL},
    {"checkpoint", "get|put|verify|pin|unpin|delete|promote REF", &checkpoint_arguments,
     "fetch, upload, check, pin, delete or serve a model file", cmd_checkpoint, 2, 3,
     "REF: job:ID (best, else last), job:ID@best, job:ID@last, job:ID@STEP, upload:NAME, or a path of the daemon's machine.\n"
     "  get REF --out FILE     fetch the model file; its SHA-256 is compared\n"
     "  put FILE [--name N]    upload FILE; its REF is then upload:N\n"
     "  verify REF             read the file again and compare its SHA-256\n"
     "  pin REF, unpin REF     protect it from pruning, or end the protection\n"
     "  delete REF             refused for pinned, served and last checkpoints\n"
     "  promote REF NAME       serve it as NAME; REF may be store://NAME/KEY of a store in daemon.yaml, which is fetched,\n"
     "                         checked, and kept as upload:NAME\n"
     "example: brrctl checkpoint get job:train-260131-1 --out model.safetensors",
     NULL},
    {"models", "[NAME]", &arguments_none, "list served models, or show one in detail", cmd_models, 0, 1,
     "example: brrctl models best", NULL},
    {"load", "NAME REF", &load_arguments, "serve a model", cmd_load, 2, 2,
     "REF: as in `brrctl checkpoint promote`. A NAME of a built-in model (ward, demo, line_length, band_power) means the served "
     "model\n"
     "from then on, until `brrctl unload NAME`.\n"
     "example: brrctl load best job:train-260131-1",
     NULL},
    {"unload", "NAME", &arguments_none, "stop serving a model; open streams finish with it", cmd_unload, 1, 1,
     "example: brrctl unload best", NULL},
    {"geodesic", "predict|metric MODEL", &geodesic_arguments, "spectra and metric of a geodesic model", cmd_geodesic, 2, 2,
     "MODEL: model.safetensors of a job of kind geodesic (works without a daemon), or job:ID, which the daemon sends.\n"
     "  predict MODEL --at C --csv FILE   the spectrum at concentration C: mean over sources, spread, each source\n"
     "  metric MODEL --csv FILE           g over concentration (columns) and wavelength (rows)\n"
     "example: brrctl geodesic predict job:geodesic-260131-1 --at 25 --csv spectrum.csv",
     NULL},
    {"burst", "generate|info|plot|run|create|list|inject|step|observe|snapshot|restore|destroy ...", &arguments_none,
     "networks of spiking neurons: draw, run, plot, observe", NULL, 1, 3,
     "Without a daemon:\n"
     "  generate random|ring|layered --out FILE   draw a network from a seed; targets anywhere, the next neurons, the next layer\n"
     "  info FILE                    synapses, degrees, areas, memory and numbers of a network or snapshot\n"
     "  plot FILE FIRED --out FILE   a raster of spikes that a run or a job wrote (.npy or .tsv)\n"
     "In the daemon:\n"
     "  run FILE --ticks N           create, inject (--inject FILE.tsv), run, write spikes (--fired) and a raster (--plot), "
     "destroy;\n"
     "                               --keep NAME leaves the network there; Ctrl-C leaves neither network nor files\n"
     "  create FILE [--name N]       a network of a file or snapshot; it lives until it is destroyed or the daemon ends\n"
     "  list                         all networks\n"
     "  inject NAME FILE.tsv         potentials for ticks to come: columns tick, id, potential\n"
     "  step NAME --ticks N          run ticks; --fired writes their spikes\n"
     "  observe NAME                 print each tick as any client steps the network, until Ctrl-C, or for --ticks N\n"
     "  snapshot NAME --out FILE     network and state; `create` and `run` go on from there\n"
     "  restore NAME FILE            the network becomes that of a snapshot; name, options and observers stay\n"
     "  destroy NAME                 end it\n"
     "example: brrctl burst generate random --neurons 10000 --synapses 100 --seed 7 --power 2000 --out net.safetensors\n"
     "example: brrctl burst run net.safetensors --ticks 500 --inject in.tsv --fired out.npy --plot raster.svg",
     burst_verbs},
    {"report", "job:ID|DIR", &report_arguments, "write a job or a folder of events as one HTML file, with a page of EEG an event",
     cmd_report, 1, 1,
     "DIR: the output of `brrctl detect`, or the folder of a job. Scores need labels, pages of EEG the recordings (--eeg).\n"
     "example: brrctl detect eeg --model demo --output found && brrctl report found --eeg eeg --output found.html\n"
     "example: brrctl report job:evaluate-260131-1",
     NULL},
    {"plot", "FILE", &plot_arguments, "draw some seconds of a recording with its labels; works without a daemon and a model",
     cmd_plot, 1, 1, "example: brrctl plot night_eeg.edf --from 3600 --seconds 20 --montage bipolar-18 --output page.png", NULL},
    {"picture", "SVG|job:ID/PATH", &picture_arguments, "write a picture as PNG or PDF", cmd_picture, 1, 1,
     "The picture is an SVG file, or one in the folder of a job. Needs the library librsvg2-2.\n"
     "example: brrctl picture job:train-260131-1/training.svg --output training.pdf",
     NULL},
    {"lsl", "list|in|out [STREAM|SESSION]", &arguments_none, "streams of the Lab Streaming Layer: list, run through a model, send",
     NULL, 1, 2,
     "Needs liblsl, which is no package of Debian: LSL_LIBRARY names its file.\n"
     "  list           streams in the network; works without a daemon\n"
     "  in STREAM      an EEG stream (its name, source_id or uid) through a model, like `brrctl stream`, until Ctrl-C; channels\n"
     "                 and units are the stream's, gaps are those of its time stamps, and it may vanish and come back\n"
     "  out SESSION    probability and alarms of an open stream as two LSL streams, `brrd probability` (256 Hz) and `brrd events`\n"
     "                 (markers alarm_on, alarm_off, sz_on, sz_off), for LabRecorder and others; needs --yes, as every outlet\n"
     "                 listens on all addresses of the machine\n"
     "example: brrctl lsl in EEG-amplifier --model ward --alarms",
     lsl_verbs},
    {"windows", "FILE", &windows_arguments, "show or write the network's input for a recording; works without a daemon",
     cmd_windows, 1, 1,
     "Writes safetensors: x F32 (n,C,T) normalised, start I64 (n) in 256 Hz samples of file time, valid I64 (n) samples.\n"
     "Without --out, windows are only counted. Defaults: referential-19, notch 60, windows of 60 s every 10 s.\n"
     "example: brrctl windows sub-01_eeg.edf --montage bipolar-18 --out windows.safetensors",
     NULL},
    {"dataset", "DIR", &dataset_arguments, "show what a folder of recordings contains; works without a daemon", cmd_dataset, 1, 1,
     "Recordings, patients, hours, seizures, montage coverage, window counts, balance, train/dev/eval folders, and problems\n"
     "(exit 1 if there are any); what the folder lacks to be a BIDS dataset. Only headers and labels are read. Defaults:\n"
     "referential-19, windows of 60 s every 10 s.\n"
     "example: brrctl dataset /data/eeg --montage bipolar-18",
     NULL},
    {"store", "ls|get|put|check URL|FILE", &store_arguments,
     "list, read, write or check a directory or bucket; works without a daemon", cmd_store, 2, 3,
     "URL: s3://BUCKET/KEY, file:///PATH, or store://NAME/KEY of the daemon.yaml that --config names.\n"
     "--endpoint is the S3 server here (https://HOST[:PORT]; default AWS_ENDPOINT_URL, else Amazon's).\n"
     "  ls URL             list objects whose URLs start with URL\n"
     "  get URL [FILE]     fetch one object, or everything below a URL that ends with '/'; FILE: a file or folder, as --out\n"
     "  put FILE URL       upload one file\n"
     "  check URL          test listing, and reading one byte\n"
     "example: brrctl store ls s3://physionet-open/chbmit/1.0.0/chb01/ --anonymous",
     NULL},
    {"top", "", &top_arguments, "show device, jobs, streams and rates live", cmd_top, 0, 0, "example: brrctl top --once", NULL},
    {"metrics", "[PREFIX]", &metrics_arguments, "print the daemon's metrics", cmd_metrics, 0, 1,
     "example: brrctl metrics brrd_stream", NULL},
    {"devices", "", &arguments_none, "show the devices of the daemon", cmd_devices, 0, 0, "example: brrctl devices", NULL},
    {"doctor", "", &arguments_none, "check the device, kernels, folders and models; each line PASS or FAIL", cmd_doctor, 0, 0,
     "Exit 1 if a line says FAIL.\nexample: brrctl doctor", NULL},
    {"ready", "", &arguments_none, "exit with 0 if the daemon takes new work, as /readyz says", cmd_ready, 0, 0,
     "example: brrctl ready --endpoint unix:/run/brrd/brrd.sock", NULL},
    {"page", "", &arguments_none, "print the address of the daemon's web pages, as a link that signs a browser in", cmd_page, 0, 0,
     "Over the unix socket. Without auth.tokens_file the link works once, within five minutes; with it, sign in with a token.\n"
     "example: xdg-open $(brrctl page)",
     NULL},
    {"drain", "", &drain_arguments, "refuse new work, checkpoint jobs, then end the daemon", cmd_drain, 0, 0,
     "example: brrctl drain", NULL},
    {"usage", "", &usage_arguments, "show who used the device: jobs, time and energy by caller", cmd_usage, 0, 0,
     "Counts the jobs that are listed (jobs.keep_finished); an attempt counts when it has ended.\nexample: brrctl usage --since "
     "30d",
     NULL},
    {"backup", "DIR", &arguments_none, "copy job records, served models and saved streams of the daemon to a directory here",
     cmd_backup, 1, 1,
     "Folders of jobs are not in it. `brrd --restore DIR --config FILE` makes a daemon of it.\nexample: brrctl backup "
     "/backup/brrd-2026-11-24",
     NULL},
    {"tls", "init|renew|token|revoke|client DIR", &tls_arguments,
     "make your own CA, certificates and tokens; works without a daemon", cmd_tls, 2, 2,
     "  init DIR [--host NAME]...    ca.crt ca.key server.crt server.key tokens admin.token; hosts: localhost, 127.0.0.1 and this\n"
     "                               machine's name, unless given\n"
     "  renew DIR [--host NAME]...   new server.crt and server.key of the same CA; a running daemon reloads them\n"
     "  token DIR --role R --name N  add a token to the file `tokens` and print it once; --until DATE sets its last day;\n"
     "                               --all: it sees the streams of all callers, as a monitoring station needs;\n"
     "                               --from beds.txt: one for each bed, for its name alone\n"
     "  revoke DIR --name N          revoke the tokens of this name\n"
     "  client DIR --name N          make N.crt and N.key for --tls-cert and --tls-key, if the daemon has tls.client_ca\n"
     "example: brrctl tls init /etc/brrd/tls --host eeg.lab.example",
     NULL},
    {"completion", "bash|zsh|fish", NULL, "print shell completions", cmd_completion, 1, 1,
     "example: source <(brrctl completion bash)", NULL},
    {"version", "", &arguments_none, "show versions of the daemon and its libraries", cmd_version, 0, 0,
     "example: brrctl version --json", NULL},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands, COMMAND_WIDTH = 38, OPTION_WIDTH = 28 };

const struct command *brrctl_commands(int *ret_n) {
    *ret_n = N_COMMANDS;
    return commands;
}

/* Characters of a text, each of which takes a column. */
static int columns_of(const char *text) {
    int n = 0;
    for (int step; (step = str_utf8_step(text)); text += step)
        n++;
    return n;
}

/* A left column that is too wide has a line of its own. */
static void print_columns(FILE *out, const char *left, int width, const char *right) {
    int used = columns_of(left);
    if (used > width)
        fprintf(out, "%s\n%*s %s\n", left, width, "", right);
    else
        fprintf(out, "%s%*s %s\n", left, width - used, "", right);
}

static void print_usage(FILE *out) {
    char left[128];
    fputs("usage: brrctl COMMAND [ARGUMENTS] [--json] [--endpoint E] [--tls-ca F] [--token-file F]\n\n", out);
    for (int i = 0; i < N_COMMANDS; i++) {
        snprintf(left, sizeof left, "  %-11s %s", commands[i].name, commands[i].words);
        print_columns(out, left, COMMAND_WIDTH, commands[i].summary);
    }
    fputs("\n`brrctl COMMAND --help` explains a command. The daemon is found through BRR_ENDPOINT (unix:/path or host:port).\n"
          "ps and list are jobs, train is submit; --version prints the version of this program.\n"
          "Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 no daemon.\n"
          "example: brrctl submit configs/tiny.yaml --set data.source=file:///data/eeg --watch\n",
          out);
}

static void print_option(void *ctx, const struct argument *o) {
    char left[128];
    snprintf(left, sizeof left, "  %s%s%s%s%s", o->name, o->alias ? ", " : "", o->alias ? o->alias : "", *o->value ? " " : "",
             o->value);
    print_columns(ctx, left, OPTION_WIDTH, o->help);
}

/* Prints the name at this column, on the next line if this one is full. Returns the column behind it. */
static int print_option_name(const char *name, int at) {
    enum { MARGIN = 17, WIDTH = 120 };
    if (at + (int)strlen(name) >= WIDTH)
        at = printf("\n%*s", MARGIN, "") - 1;
    return at + printf(" %s", name);
}

/* The own options of each verb; `COMMAND VERB --help` explains them. */
static void print_verb_options(const struct command *c) {
    if (!c->verbs)
        return;
    printf("Options of %s (`brrctl %s VERB --help` explains them):\n", c->name, c->name);
    for (const struct command_verb *v = c->verbs; v->name; v++) {
        int at = printf("  %-14s ", v->name);
        for (int i = 0; i < v->options->n; i++)
            at = print_option_name(v->options->rows[i].name, at);
        puts(v->options->n ? "" : " none");
    }
    putchar('\n');
}

static int print_help(const struct command *c) {
    printf("usage: brrctl %s%s%s%s\n%s\n\n", c->name, *c->words ? " " : "", c->words, c->options ? " [OPTIONS]" : "", c->summary);
    arguments_each(c->options, print_option, stdout);
    if (c->options)
        putchar('\n');
    print_verb_options(c);
    puts(c->details);
    return 0;
}

/* The lines of the command's details that begin with two spaces and the verb, and those that go on deeper. */
static void print_verb_lines(const char *details, const char *verb) {
    size_t len = strlen(verb);
    bool ours = false;
    for (const char *line = details; *line;) {
        size_t n = strcspn(line, "\n");
        ours = strncmp(line, "   ", 3) ? !strncmp(line, "  ", 2) && !strncmp(line + 2, verb, len) && line[2 + len] == ' ' : ours;
        if (ours)
            printf("%.*s\n", (int)n, line);
        line += n + (line[n] == '\n');
    }
}

static int print_verb_help(const struct command *c, const struct command_verb *v) {
    printf("usage: brrctl %s %s%s%s [OPTIONS]\n", c->name, v->name, *v->words ? " " : "", v->words);
    print_verb_lines(c->details, v->name);
    putchar('\n');
    arguments_each(v->options, print_option, stdout);
    return 0;
}

static const struct command_verb *find_verb(const struct command *c, const char *word) {
    for (const struct command_verb *v = c->verbs; v && v->name; v++)
        if (!strcmp(v->name, word))
            return v;
    return NULL;
}

static int help_of(const struct command *c, int argc, char **argv) {
    for (int i = 2; i < argc; i++) {
        const struct command_verb *v = find_verb(c, argv[i]);
        if (v)
            return print_verb_help(c, v);
    }
    return print_help(c);
}

static bool is_version(const char *word) { return !strcmp(word, "--version"); }
static bool is_help(const char *word) { return !strcmp(word, "--help") || !strcmp(word, "-h"); }

static bool asks_help(int argc, char **argv) {
    for (int i = 2; i < argc && strcmp(argv[i], "--"); i++)
        if (is_help(argv[i]))
            return true;
    return false;
}

/* Words that other programs use for a command. */
static const struct { const char *word, *command; } synonyms[] = {{"ps", "jobs"}, {"list", "jobs"}, {"train", "submit"}};

static const struct command *find_command(const char *name) {
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (!strcmp(name, synonyms[i].word))
            name = synonyms[i].command;
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(name, commands[i].name))
            return &commands[i];
    return NULL;
}

static int wrong_verb_words(const struct command *c, const struct command_verb *v, const struct arguments *o) {
    if (o->n_args < v->n_args)
        fprintf(stderr, "brrctl: %s %s needs %s; see `brrctl %s %s --help`\n", c->name, v->name, v->words, c->name, v->name);
    else
        fprintf(stderr, "brrctl: unexpected argument '%s'; expected brrctl %s %s%s%s\n", o->args[v->n_args], c->name, v->name,
                *v->words ? " " : "", v->words);
    return EXIT_USAGE;
}

static int unknown_verb(const struct command *c, const char *word) {
    int n = 0;
    while (c->verbs[n].name)
        n++;
    const char *nearest = arguments_nearest(word, &c->verbs[0].name, n, sizeof *c->verbs);
    fprintf(stderr, "brrctl: unknown %s command '%s'; ", c->name, word);
    if (nearest)
        fprintf(stderr, "did you mean %s?\n", nearest);
    else
        fprintf(stderr, "`brrctl %s --help` lists the commands\n", c->name);
    return EXIT_USAGE;
}

/* The first word after the command that is no option; NULL: none. */
static const char *first_word(int argc, char **argv) {
    for (int i = 2; i < argc; i++)
        if (argv[i][0] != '-')
            return argv[i];
        else if (arguments_takes_value(argv[i]))
            i++;
    return NULL;
}

/* Runs a command whose words are right. Files of others are not replaced; its own are listed, also those of a command that failed
 * later. */
static int run_listed(int (*run)(const struct arguments *o), const struct argument_table *table, const struct arguments *o) {
    struct arguments_outputs outputs;
    struct err err = {0};
    if (arguments_check_outputs(o, table, &outputs, &err))
        return brrctl_fail(&err);
    int code = run(o);
    return arguments_list_outputs(&outputs, &err) && !code ? brrctl_fail(&err) : code;
}

static int run_verb(const struct command *c, int argc, char **argv) {
    const char *word = first_word(argc, argv);
    const struct command_verb *v = word ? find_verb(c, word) : NULL;
    struct arguments o;
    char name[64];
    if (!word)
        fprintf(stderr, "brrctl: %s needs %s; see `brrctl %s --help`\n", c->name, c->words, c->name);
    if (!v)
        return word ? unknown_verb(c, word) : EXIT_USAGE;
    snprintf(name, sizeof name, "%s %s", c->name, v->name);
    argv[1] = name; /* for errors of its options */
    int code = EXIT_USAGE;
    if (arguments_parse(argc, argv, v->options, &o))
        code = o.n_args == v->n_args ? run_listed(v->run, v->options, &o) : wrong_verb_words(c, v, &o);
    arguments_done(&o);
    return code;
}

static int run(const struct command *c, int argc, char **argv) {
    struct arguments o;
    int code = EXIT_USAGE;
    if (c->verbs)
        return run_verb(c, argc, argv);
    if (!arguments_parse(argc, argv, c->options, &o)) {
        arguments_done(&o);
        return code;
    }
    if (o.n_args < c->min_args)
        fprintf(stderr, "brrctl: %s needs %s; see `brrctl %s --help`\n", c->name, c->words, c->name);
    else if (c->max_args >= 0 && o.n_args > c->max_args)
        fprintf(stderr, "brrctl: unexpected argument '%s'; expected brrctl %s%s%s\n", o.args[c->max_args], c->name,
                *c->words ? " " : "", c->words);
    else
        code = run_listed(c->run, c->options, &o);
    arguments_done(&o);
    return code;
}

static int unknown_command(const char *word) {
    const char *nearest = arguments_nearest(word, &commands[0].name, N_COMMANDS, sizeof *commands);
    fprintf(stderr, "brrctl: there is no command '%s'", word);
    fprintf(stderr, nearest ? "; did you mean %s?\n" : "; `brrctl help` lists them%s\n", nearest ? nearest : "");
    return EXIT_USAGE;
}

/* This program's own version; `version` asks the daemon. */
static int print_version(int argc, char **argv) {
    bool json = false;
    for (int i = 1; i < argc; i++)
        json = json || !strcmp(argv[i], "--json");
    printf(json ? "{\"version\":\"%s\",\"revision\":\"%s\"}\n" : "brrctl %s (%s)\n", BRR_VERSION, BRR_REVISION);
    return 0;
}

/* Printing is part of the work: a failed write to stdout is an error of the command. */
static int done(int code) { return output_arrived() || code ? code : EXIT_FAILED; }

/* Options before the command are moved behind it: "brrctl --json jobs" is "brrctl jobs --json". */
static bool command_first(int argc, char **argv) {
    int at = 1;
    while (at < argc && argv[at][0] == '-' && !is_help(argv[at]) && !is_version(argv[at]))
        at += arguments_takes_value(argv[at]) ? 2 : 1;
    if (at >= argc || at == 1)
        return at < argc;
    char *command = argv[at];
    memmove(argv + 2, argv + 1, (size_t)(at - 1) * sizeof *argv);
    argv[1] = command;
    return true;
}

int main(int argc, char **argv) {
    signal(SIGXFSZ, SIG_IGN);            /* a write beyond the limit of file size is an error */
    setenv("GRPC_VERBOSITY", "NONE", 0); /* errors are said once, by the command */
    const char *first = argc > 1 ? argv[1] : NULL;
    if (!command_first(argc, argv)) {
        if (!first)
            print_usage(stderr);
        else
            arguments_tell_common(first);
        return EXIT_USAGE;
    }
    bool help = !strcmp(argv[1], "help");
    if (is_help(argv[1]) || (help && argc == 2)) {
        print_usage(stdout);
        return done(0);
    }
    if (is_version(argv[1]))
        return done(print_version(argc, argv));
    const char *name = help ? argv[2] : argv[1];
    const struct command *c = find_command(name);
    if (!c)
        return unknown_command(name);
    return done(help || asks_help(argc, argv) ? help_of(c, argc, argv) : run(c, argc, argv));
}
