package sqlite

import "sync"

// wakesMax bounds the channels of one queue; the oldest is forgotten, and its
// holder polls.
const wakesMax = 64

// wakes are the hints of this process; other processes poll.
type wakes struct {
	mu       sync.Mutex
	channels map[string][]chan struct{}
}

// Wake implements store.Store.
func (s *Store) Wake(queue string) <-chan struct{} {
	s.wakes.mu.Lock()
	defer s.wakes.mu.Unlock()
	if s.wakes.channels == nil {
		s.wakes.channels = map[string][]chan struct{}{}
	}
	c := make(chan struct{}, 1)
	list := s.wakes.channels[queue]
	if len(list) >= wakesMax {
		list = list[1:]
	}
	s.wakes.channels[queue] = append(list, c)
	return c
}

// signal wakes the queues of a transaction that has committed.
func (w *wakes) signal(queues map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for queue := range queues {
		for _, c := range w.channels[queue] {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
}
