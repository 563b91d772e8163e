package inbox

import "sync"

// pending is a draft that waits for its commit.
type pending struct {
	Draft
	bytes int64
	done  chan outcome // room for one, so that nobody waits for a caller that left
}

type outcome struct {
	receipt Receipt
	err     error
}

// queue holds drafts in order of arrival, bounded in rows and bytes.
type queue struct {
	mu       sync.Mutex
	more     sync.Cond
	rows     []*pending
	bytes    int64
	rowsMax  int
	bytesMax int64
	open     bool
}

// push returns ErrStopped or ErrOverloaded and queues nothing then.
func (q *queue) push(p *pending) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case !q.open:
		return ErrStopped
	case len(q.rows) >= q.rowsMax || q.bytes+p.bytes > q.bytesMax:
		return ErrOverloaded
	}
	q.rows = append(q.rows, p)
	q.bytes += p.bytes
	q.more.Signal()
	return nil
}

// take waits for drafts and returns all that are there, up to the bounds; nil
// when the queue is closed and empty.
func (q *queue) take(rowsMax int, bytesMax int64) []*pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.rows) == 0 {
		if !q.open {
			return nil
		}
		q.more.Wait()
	}
	n, bytes := 1, q.rows[0].bytes
	for n < len(q.rows) && n < rowsMax && bytes+q.rows[n].bytes <= bytesMax {
		bytes += q.rows[n].bytes
		n++
	}
	batch := append([]*pending(nil), q.rows[:n]...)
	left := copy(q.rows, q.rows[n:])
	clear(q.rows[left:])
	q.rows = q.rows[:left]
	q.bytes -= bytes
	if left > 0 {
		q.more.Signal()
	}
	return batch
}

func (q *queue) start() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = true
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = false
	q.more.Broadcast()
}

func (q *queue) isOpen() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.open
}

func (q *queue) size() (rows int, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.rows), q.bytes
}
