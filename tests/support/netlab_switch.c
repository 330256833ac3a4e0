/* switch RATE_BPS DELAY_NS NETNS...: an Ethernet switch in user space with one TAP ("eth0") in each named namespace.
 * Each port has an up and a down link of RATE_BPS (0: unlimited). A frame read from port i leaves the up link when the
 * link has sent it, is DELAY_NS under way, and then passes the down link of the receiver. Nothing is ever dropped:
 * when the up link of a port is more than 2 ms busy, that port is not read, and the host's own queue fills up. While
 * an up link is busy for longer than AHEAD_NS, a new frame does not wake the switch, which looks when it is awake for
 * a delivery, or in time: the frame leaves after those before it, whenever it was read. To wake is half of the
 * switch's work, and its work is taken from the hosts' cores.
 * Frames keep their virtio header, so that TCP segments of up to 64 KiB pass whole; their wire size counts the headers
 * of the 1500-byte packets that they stand for. The cores serve the switch by turns: one that did so alone would make
 * the host that computes there slower than the others, which all of them then wait for. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
#define MAXPORT 70
#define MAXFRAME 65700
#define SMALLFRAME 2048
#define BUSY_NS 2000000
#define AHEAD_NS 200000
struct frame { struct frame *next; int64_t due; int len, large; unsigned char data[]; };
struct port { int fd; int64_t up_free, down_free; struct frame *head, **tail; unsigned char mac; };
static struct port P[MAXPORT];
static int nport;
static double ns_per_byte;
static int64_t delay_ns;
static int64_t now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000ll + t.tv_nsec; }
static void fatal(const char *what, const char *arg) { fprintf(stderr, "%s %s: %s\n", what, arg, strerror(errno)); exit(1); }
static int open_tap(const char *ns)
{
    char path[256]; snprintf(path, sizeof path, "/run/netns/%s", ns);
    int n = open(path, O_RDONLY | O_CLOEXEC);
    if (n < 0 || setns(n, CLONE_NEWNET)) fatal("namespace", ns);
    close(n);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), hdr = sizeof(struct virtio_net_hdr);
    struct ifreq r; memset(&r, 0, sizeof r); strcpy(r.ifr_name, "eth0"); r.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
    if (fd < 0 || ioctl(fd, TUNSETIFF, &r)) fatal("tap in", ns);
    if (ioctl(fd, TUNSETVNETHDRSZ, &hdr) || ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6)) fatal("tap offload in", ns);
    return fd;
}
/* Frames that were handed over are used again, the last one first: it is still in the cache. Small ones, of which a
 * queue may hold thousands, have memory of their own size. */
static struct frame *unused[2];
static struct frame *new_frame(int len)
{
    int large = len > SMALLFRAME;
    struct frame *f = unused[large];
    if (f) unused[large] = f->next;
    else if (!(f = malloc(sizeof *f + (large ? MAXFRAME : SMALLFRAME)))) fatal("memory", "");
    f->large = large;
    return f;
}
static void put_back(struct frame *f) { f->next = unused[f->large]; unused[f->large] = f; }
static struct frame *copy_of(const struct frame *f)
{
    struct frame *c = new_frame(f->len);
    memcpy(c->data, f->data, c->len = f->len);
    return c;
}
static void deliver(struct port *q, struct frame *f, int64_t at, double wire)
{
    /* cut-through: the first bit arrives at `at` - its own sending time, so an idle down link adds nothing */
    int64_t start = at - (int64_t)(wire * ns_per_byte);
    if (start < q->down_free) start = q->down_free;
    q->down_free = start + (int64_t)(wire * ns_per_byte);
    f->next = 0; f->due = q->down_free;
    *q->tail = f; q->tail = &f->next;
}
static void change_core(int64_t t)
{
    static cpu_set_t all;
    static int64_t next;
    static int core = -1;
    if (t < next) return;
    if (core < 0 && sched_getaffinity(0, sizeof all, &all)) fatal("affinity", "");
    next = t + 2000000;
    do core = (core + 1) % CPU_SETSIZE; while (!CPU_ISSET(core, &all));
    cpu_set_t one;
    CPU_ZERO(&one); CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);      /* best effort */
}
int main(int argc, char **argv)
{
    double bps = argc > 3 ? atof(argv[1]) : 0;
    if (argc < 4 || argc - 3 > MAXPORT) { fprintf(stderr, "usage: switch RATE_BPS DELAY_NS NETNS...\n"); return 2; }
    ns_per_byte = bps > 0 ? 8e9 / bps : 0; delay_ns = atoll(argv[2]);
    for (nport = 0; nport + 3 < argc; ++nport) { P[nport].fd = open_tap(argv[nport + 3]); P[nport].tail = &P[nport].head; 
        const char *h = argv[nport + 3] + 3; P[nport].mac = !strcmp(h, "login") ? 254 : atoi(h + 4); }
    struct sched_param sp = { .sched_priority = 1 };
    sched_setscheduler(0, SCHED_FIFO, &sp);      /* ranks busy-wait; best effort: fails without CAP_SYS_NICE */
    prctl(PR_SET_TIMERSLACK, 1ul);
    printf("ready\n"); fflush(stdout);
    for (;;) {
        struct pollfd pf[MAXPORT];
        int64_t t = now(), wake = t + 1000000000;
        for (int i = 0; i < nport; ++i) {        /* 1. hand over what is due */
            struct port *q = &P[i];
            while (q->head && q->head->due <= t) {
                struct frame *f = q->head;
                if (write(q->fd, f->data, f->len) < 0 && errno == EAGAIN) break;
                if (!(q->head = f->next)) q->tail = &q->head;
                put_back(f);
            }
            if (q->head && q->head->due < wake) wake = q->head->due;
            int64_t look = q->up_free - AHEAD_NS;
            if (look > t && look < wake) wake = look;
            pf[i].fd = q->fd; pf[i].events = look > t ? 0 : POLLIN; pf[i].revents = 0;
        }
        int64_t w = wake - now(); if (w < 0) w = 0;
        struct timespec ts = { w / 1000000000, w % 1000000000 };
        if (ppoll(pf, nport, &ts, 0) < 0) continue;
        change_core(t = now());
        for (int i = 0; i < nport; ++i) {        /* 2. take new frames */
            if (!pf[i].revents && (pf[i].events || P[i].up_free > t + BUSY_NS)) continue;
            for (int burst = 0; burst < 16; ++burst) {
                struct frame *f = new_frame(MAXFRAME);
                int len = f->len = read(P[i].fd, f->data, MAXFRAME);
                if (len < (int)sizeof(struct virtio_net_hdr) + 14) { put_back(f); break; }
                if (len <= SMALLFRAME) { struct frame *small = copy_of(f); put_back(f); f = small; }
                struct virtio_net_hdr *h = (void *)f->data; unsigned char *e = f->data + sizeof *h;
                double wire = len - (int)sizeof *h + 24;             /* preamble, FCS, gap */
                if (h->gso_type != VIRTIO_NET_HDR_GSO_NONE && h->gso_size) wire += (double)((len - 66) / h->gso_size) * (66 + 24);
                t = now();
                int64_t up = P[i].up_free > t ? P[i].up_free : t;
                P[i].up_free = up += (int64_t)(wire * ns_per_byte);
                int receivers = 0;
                for (int j = 0; j < nport; ++j)
                    if (j != i && ((e[0] & 1) || (e[0] == 2 && e[5] == P[j].mac)))
                        deliver(&P[j], receivers++ ? copy_of(f) : f, up + delay_ns, wire);
                if (!receivers) put_back(f);
                if (up > t + BUSY_NS) break;
            }
        }
    }
}
