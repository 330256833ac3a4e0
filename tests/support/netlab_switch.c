/* switch RATE_BPS DELAY_NS NETNS...: an Ethernet switch in user space with one TAP ("eth0") in each named namespace.
 * Each port has an up and a down link of RATE_BPS (0: unlimited). A frame read from port i leaves the up link when the
 * link has sent it, is DELAY_NS under way, and then passes the down link of the receiver. Nothing is ever dropped:
 * when the up link of a port is more than 2 ms busy, that port is not read, and the host's own queue fills up.
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
struct frame { struct frame *next; int64_t due; int len; unsigned char data[]; };
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
static void deliver(struct port *q, const unsigned char *d, int len, int64_t at, double wire)
{
    struct frame *f = malloc(sizeof *f + len);
    if (!f) fatal("memory", "");
    /* cut-through: the first bit arrives at `at` - its own sending time, so an idle down link adds nothing */
    int64_t start = at - (int64_t)(wire * ns_per_byte);
    if (start < q->down_free) start = q->down_free;
    q->down_free = start + (int64_t)(wire * ns_per_byte);
    f->next = 0; f->due = q->down_free; f->len = len; memcpy(f->data, d, len);
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
    static unsigned char buf[MAXFRAME];
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
                free(f);
            }
            if (q->head && q->head->due < wake) wake = q->head->due;
            int busy = q->up_free > t + 2000000;
            if (busy && q->up_free - 2000000 < wake) wake = q->up_free - 2000000;
            pf[i].fd = q->fd; pf[i].events = busy ? 0 : POLLIN; pf[i].revents = 0;
        }
        int64_t w = wake - now(); if (w < 0) w = 0;
        struct timespec ts = { w / 1000000000, w % 1000000000 };
        if (ppoll(pf, nport, &ts, 0) <= 0) continue;
        change_core(now());
        for (int i = 0; i < nport; ++i) {        /* 2. take new frames */
            if (!(pf[i].revents & POLLIN)) continue;
            for (int burst = 0; burst < 16; ++burst) {
                int len = read(P[i].fd, buf, sizeof buf);
                if (len < (int)sizeof(struct virtio_net_hdr) + 14) break;
                struct virtio_net_hdr *h = (void *)buf; unsigned char *e = buf + sizeof *h;
                double wire = len - (int)sizeof *h + 24;             /* preamble, FCS, gap */
                if (h->gso_type != VIRTIO_NET_HDR_GSO_NONE && h->gso_size) wire += (double)((len - 66) / h->gso_size) * (66 + 24);
                t = now();
                int64_t up = P[i].up_free > t ? P[i].up_free : t;
                P[i].up_free = up += (int64_t)(wire * ns_per_byte);
                for (int j = 0; j < nport; ++j)
                    if (j != i && ((e[0] & 1) || (e[0] == 2 && e[5] == P[j].mac))) deliver(&P[j], buf, len, up + delay_ns, wire);
                if (up > t + 2000000) break;
            }
        }
    }
}
