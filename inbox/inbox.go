package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/unavez/unavez/internal/id"
	"github.com/unavez/unavez/store"
)

// Defaults and bounds.
const (
	DefaultFlushers      = 2
	DefaultBatchRowsMax  = 256
	DefaultBatchBytesMax = 8 << 20
	DefaultQueueRowsMax  = 4096
	DefaultQueueBytesMax = 32 << 20
	DefaultKnownBytesMax = 48 << 20
	// KnownBytesMaxMax is the most that the cache of identities may take.
	KnownBytesMaxMax    = 64 << 20
	DefaultVariantsMax  = 8
	DefaultCountsMax    = 4096
	DefaultCountEvery   = time.Second
	DefaultFlushTimeout = 10 * time.Second
	DefaultSyncTimeout  = 5 * time.Second
	DefaultSyncAtOnce   = 8

	variantsMaxMax = 100
	// putAtOnce is how many drafts of one PutAll wait together.
	putAtOnce = 64
	// doubtsMax is how often a commit in doubt is run again.
	doubtsMax = 2
)

// Options configure an Inbox; zero values are the defaults.
type Options struct {
	// Flushers is the number of transactions that may be open at once.
	Flushers int
	// BatchRowsMax and BatchBytesMax bound one transaction.
	BatchRowsMax  int
	BatchBytesMax int64
	// QueueRowsMax and QueueBytesMax bound what waits for a transaction.
	QueueRowsMax  int
	QueueBytesMax int64
	// KnownBytesMax bounds the cache of committed identities, at most 64 MiB.
	KnownBytesMax int64
	// VariantsMax bounds the copies with other facts that are kept of one event.
	VariantsMax int
	// CountsMax bounds the entries whose repeated deliveries are counted in
	// memory, CountEvery says how often the counts are written.
	CountsMax  int
	CountEvery time.Duration
	// FlushTimeout bounds one transaction.
	FlushTimeout time.Duration
	// SyncTimeout bounds one synchronous change, SyncAtOnce how many run at
	// once; what finds no room is stored as received instead.
	SyncTimeout time.Duration
	SyncAtOnce  int
	// Notices renders the messages that tell of an exception that opens here;
	// they commit with it. It may be nil.
	Notices func(store.Exception) []store.Message
	// Forward renders the messages that pass a new event on with the provider's
	// own bytes; they commit with the entry, once. It may be nil.
	Forward func(e store.EntryWithBody, lane string) []store.Message
	Now     func() time.Time
	NewID   func(prefix string) string
	Logger  *slog.Logger
	Metrics *Metrics
}

func (o *Options) fill() error {
	setDefault(&o.Flushers, DefaultFlushers)
	setDefault(&o.BatchRowsMax, DefaultBatchRowsMax)
	setDefault(&o.BatchBytesMax, DefaultBatchBytesMax)
	setDefault(&o.QueueRowsMax, DefaultQueueRowsMax)
	setDefault(&o.QueueBytesMax, DefaultQueueBytesMax)
	setDefault(&o.KnownBytesMax, DefaultKnownBytesMax)
	setDefault(&o.VariantsMax, DefaultVariantsMax)
	setDefault(&o.CountsMax, DefaultCountsMax)
	setDefault(&o.CountEvery, DefaultCountEvery)
	setDefault(&o.FlushTimeout, DefaultFlushTimeout)
	setDefault(&o.SyncTimeout, DefaultSyncTimeout)
	setDefault(&o.SyncAtOnce, DefaultSyncAtOnce)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = func(prefix string) string { return id.New(prefix, o.Now()) }
	}
	if o.Notices == nil {
		o.Notices = func(store.Exception) []store.Message { return nil }
	}
	if o.Forward == nil {
		o.Forward = func(store.EntryWithBody, string) []store.Message { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
	return o.check()
}

func (o *Options) check() error {
	var problems []error
	for _, bound := range []struct {
		name  string
		value int64
	}{
		{"flushers", int64(o.Flushers)}, {"rows of a batch", int64(o.BatchRowsMax)}, {"bytes of a batch", o.BatchBytesMax},
		{"rows of the queue", int64(o.QueueRowsMax)}, {"bytes of the queue", o.QueueBytesMax},
		{"bytes of the cache", o.KnownBytesMax}, {"variants", int64(o.VariantsMax)}, {"counts", int64(o.CountsMax)},
		{"the pause between counts", int64(o.CountEvery)}, {"the time of a transaction", int64(o.FlushTimeout)},
		{"the time of a synchronous change", int64(o.SyncTimeout)}, {"synchronous changes at once", int64(o.SyncAtOnce)},
	} {
		if bound.value < 0 {
			problems = append(problems, fmt.Errorf("inbox: %s: %d is negative", bound.name, bound.value))
		}
	}
	if o.KnownBytesMax > KnownBytesMaxMax {
		problems = append(problems, fmt.Errorf("inbox: bytes of the cache: %d is more than %d", o.KnownBytesMax, KnownBytesMaxMax))
	}
	if o.VariantsMax > variantsMaxMax {
		problems = append(problems, fmt.Errorf("inbox: variants: %d is more than %d", o.VariantsMax, variantsMaxMax))
	}
	return errors.Join(problems...)
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Receipt says what became of evidence that is durable.
type Receipt struct {
	// ID is the entry that holds it, ours or an earlier one.
	ID string
	// Duplicate says that an earlier entry holds it already.
	Duplicate bool
	// Variant says that it is a copy of an event with other facts, kept as an
	// entry of its own.
	Variant bool
	// OtherBytes says that a duplicate says the same in other bytes.
	OtherBytes bool
}

// Inbox stores evidence. It is safe for concurrent use.
type Inbox struct {
	store  store.Store
	opt    Options
	queue  queue
	known  *known
	counts counts
	syncs  chan struct{}

	started  atomic.Bool
	ctx      context.Context // of the flushers; canceled by a hard stop
	cancel   context.CancelFunc
	flushing sync.WaitGroup
	counting sync.WaitGroup
	stop     func()
}

// New makes an inbox over the store. It takes nothing before Start.
func New(s store.Store, opt Options) (*Inbox, error) {
	if err := opt.fill(); err != nil {
		return nil, err
	}
	in := &Inbox{store: s, opt: opt, known: newKnown(opt.KnownBytesMax, s.Epoch()), syncs: make(chan struct{}, opt.SyncAtOnce)}
	in.queue.rowsMax, in.queue.bytesMax = opt.QueueRowsMax, opt.QueueBytesMax
	in.queue.more.L = &in.queue.mu
	in.counts.max, in.counts.byEntry = opt.CountsMax, map[string]int{}
	return in, nil
}

// Start opens the intake and starts the flushers. It may be called once. The
// end of ctx does not stop the inbox; Stop does.
func (in *Inbox) Start(ctx context.Context) error {
	if !in.started.CompareAndSwap(false, true) {
		return errors.New("inbox: started twice")
	}
	in.ctx, in.cancel = context.WithCancel(context.WithoutCancel(ctx))
	in.queue.start()
	for range in.opt.Flushers {
		in.flushing.Go(in.flush)
	}
	stop := make(chan struct{})
	in.stop = sync.OnceFunc(func() { close(stop) })
	in.counting.Go(func() { in.count(stop) })
	return nil
}

// Stop closes the intake, lets the flushers store what waits, and writes the
// counts. When ctx ends first, the open transactions are canceled and their
// callers get ErrNotStored; Stop still waits for every goroutine, which takes
// no longer than the store takes to end a commit that was sent.
func (in *Inbox) Stop(ctx context.Context) error {
	if !in.started.Load() {
		return nil
	}
	in.queue.close()
	drained := make(chan struct{})
	go func() { in.flushing.Wait(); close(drained) }()
	var err error
	select {
	case <-drained:
	case <-ctx.Done():
		err = fmt.Errorf("inbox: stopping hard: %w", context.Cause(ctx))
		in.cancel()
		<-drained
	}
	in.stop()
	in.counting.Wait()
	if counted := in.writeCounts(in.ctx); err == nil {
		err = counted
	}
	in.cancel()
	return err
}

// Put stores the draft and waits until it is durable. Putting an event again
// is harmless: the receipt says Duplicate. An error wraps ErrNotStored,
// ErrOverloaded or ErrStopped. When ctx ends first, the draft is stored whole
// or not at all, and nobody knows which.
func (in *Inbox) Put(ctx context.Context, d Draft) (Receipt, error) {
	p, receipt, err := in.admit(ctx, d)
	if p == nil {
		return receipt, err
	}
	return in.await(ctx, p)
}

// PutAll stores the drafts of one delivery. One that cannot be stored does not
// keep the others out: its receipt has no ID, and the error wraps the first
// such failure.
func (in *Inbox) PutAll(ctx context.Context, drafts []Draft) ([]Receipt, error) {
	receipts := make([]Receipt, len(drafts))
	var first error
	waiting := make([]*pending, 0, putAtOnce)
	for begin := 0; begin < len(drafts); begin += putAtOnce {
		part := drafts[begin:min(begin+putAtOnce, len(drafts))]
		waiting = waiting[:0]
		for i, d := range part {
			p, receipt, err := in.admit(ctx, d)
			receipts[begin+i] = receipt
			first = either(first, err)
			waiting = append(waiting, p)
		}
		for i, p := range waiting {
			if p == nil {
				continue
			}
			receipt, err := in.await(ctx, p)
			receipts[begin+i] = receipt
			first = either(first, err)
		}
	}
	return receipts, first
}

func either(first, next error) error {
	if first != nil {
		return first
	}
	return next
}

// admit answers from memory or queues the draft.
func (in *Inbox) admit(ctx context.Context, d Draft) (*pending, Receipt, error) {
	if err := ctx.Err(); err != nil {
		return nil, Receipt{}, fmt.Errorf("event %s: %w: %w", d.ID, ErrNotStored, context.Cause(ctx))
	}
	if receipt, ok := in.repeated(&d.Entry); ok && in.counts.add(receipt.ID) {
		return nil, receipt, nil
	}
	p := &pending{Draft: d, bytes: int64(len(d.Bytes) + len(d.Header)), done: make(chan outcome, 1)}
	if err := in.queue.push(p); err != nil {
		return nil, Receipt{}, fmt.Errorf("event %s: %w", d.ID, err)
	}
	in.opt.Metrics.queued(in.queue.size())
	return p, Receipt{}, nil
}

func (in *Inbox) await(ctx context.Context, p *pending) (Receipt, error) {
	select {
	case o := <-p.done:
		return o.receipt, o.err
	case <-ctx.Done():
		return Receipt{}, fmt.Errorf("event %s: %w: %w", p.ID, ErrNotStored, context.Cause(ctx))
	}
}

// repeated says whether the cache knows the entry, or its variant, as stored.
func (in *Inbox) repeated(e *store.Entry) (Receipt, bool) {
	epoch := in.store.Epoch()
	r, ok := in.known.get(epoch, knownKey(e.Scope, e.Identity))
	if !ok {
		return Receipt{}, false
	}
	variant := r.fact != toDigest(e.FactDigest)
	if variant {
		r, ok = in.known.get(epoch, knownKey(e.Scope, variantIdentity(e.Identity, e.FactDigest)))
		if !ok {
			return Receipt{}, false
		}
	}
	return Receipt{ID: r.id, Duplicate: true, Variant: variant, OtherBytes: r.body != toDigest(e.BodyDigest)}, true
}

func (in *Inbox) txOptions() store.TxOptions {
	return store.TxOptions{Timeout: in.opt.FlushTimeout}
}

// Queued is the number of drafts that wait for a transaction.
func (in *Inbox) Queued() int {
	rows, _ := in.queue.size()
	return rows
}
