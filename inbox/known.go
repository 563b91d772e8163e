package inbox

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/unavez/unavez/store"
)

// rememberedOverhead is what one remembered identity costs beside its texts:
// digests, list element, map slot. Bytes, rounded up.
const rememberedOverhead = 256

type digest = [32]byte

// remembered is a stored entry, as far as a copy is compared with it.
type remembered struct {
	id         string
	fact, body digest
}

// known holds identities whose commit this process has seen. It belongs to one
// epoch of the store: after a lost connection another server may have taken
// over, and what it does not know must be asked again.
type known struct {
	mu       sync.Mutex
	entries  *simplelru.LRU[string, remembered]
	bytes    int64
	bytesMax int64
	epoch    uint64
}

func newKnown(bytesMax int64, epoch uint64) *known {
	k := &known{bytesMax: bytesMax, epoch: epoch}
	count := max(1, bytesMax/rememberedOverhead)
	entries, err := simplelru.NewLRU(int(count), func(key string, r remembered) { k.bytes -= cost(key, r) })
	if err != nil {
		panic("inbox: impossible: " + err.Error()) // the count is positive
	}
	k.entries = entries
	return k
}

func cost(key string, r remembered) int64 { return int64(len(key)+len(r.id)) + rememberedOverhead }

// get returns what is known under the key in the epoch.
func (k *known) get(epoch uint64, key string) (remembered, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.enter(epoch)
	return k.entries.Get(key)
}

// put remembers what a transaction that began in the epoch has committed. If
// the epoch has changed since, nothing is remembered.
func (k *known) put(begun, now uint64, key string, r remembered) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.enter(now)
	if begun != k.epoch {
		return
	}
	if old, ok := k.entries.Peek(key); ok {
		k.bytes -= cost(key, old)
	}
	k.bytes += cost(key, r)
	k.entries.Add(key, r)
	for k.bytes > k.bytesMax {
		if _, _, ok := k.entries.RemoveOldest(); !ok {
			return
		}
	}
}

// enter empties the cache when the epoch is a later one. A caller that read
// the epoch before another one did must not bring an old epoch back.
func (k *known) enter(epoch uint64) {
	if epoch > k.epoch {
		k.entries.Purge()
		k.epoch = epoch
	}
}

func (k *known) size() (entries int, bytes int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.entries.Len(), k.bytes
}

// knownKey names an identity. Modes and account names hold no bar.
func knownKey(s store.Scope, identity string) string {
	return s.Account + "|" + s.Mode + "|" + identity
}

func toDigest(b []byte) (d digest) {
	copy(d[:], b)
	return d
}
