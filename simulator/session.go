package simulator

import "fmt"

// triggerSession plays the hosted checkout page.
func (s *Server) triggerSession(c *call, t Trigger) (string, error) {
	switch {
	case t.Type == SessionComplete:
		return s.completeSession(c, t)
	case t.Type == SessionExpire && t.Session == "":
		return s.abandonSession(c, t)
	}
	cs, err := lookup(&s.sessions, t.Session)
	if err != nil {
		return "", err
	}
	c.account = cs.account
	if cs.payment != "unpaid" || cs.status != "complete" || t.Type == SessionExpire || cs.intent.status != intentProcessing {
		return "", wrongState(cs.id, cs.status+" and "+cs.payment)
	}
	in, typ := cs.intent, "checkout.session.async_payment_failed"
	if t.Type == SessionSucceed {
		typ, cs.payment = "checkout.session.async_payment_succeeded", "paid"
		s.approve(c, in, in.latest)
	} else {
		_ = s.decline(c, in, in.latest) // nobody has called, so nobody gets the error
	}
	s.emit(c, in.id, typ, s.showSession(cs), nil)
	return cs.id, nil
}

// completeSession ends a checkout whose payment is the given intent. The session
// is paid if the intent has succeeded, else unpaid: still in process, or held.
func (s *Server) completeSession(c *call, t Trigger) (string, error) {
	in, err := s.intentOf(c, t.PaymentIntent)
	if err != nil {
		return "", err
	}
	cs := &session{
		intent: in, amount: in.amount, currency: in.currency, status: "complete", payment: "unpaid",
		reference: t.Reference, metadata: t.Metadata,
	}
	switch in.status {
	case intentSucceeded:
		cs.payment = "paid"
	case intentProcessing, intentRequiresCapture:
	default:
		return "", wrongState(in.id, in.status)
	}
	cs.base = s.newBase(c, s.sessionPrefix())
	s.sessions.add(cs.id, cs)
	s.emit(c, in.id, "checkout.session.completed", s.showSession(cs), nil)
	return cs.id, nil
}

// abandonSession is a checkout that nobody finished.
func (s *Server) abandonSession(c *call, t Trigger) (string, error) {
	currency, bad := checkCurrency(t.Currency)
	if bad == nil {
		bad = checkAmount("amount", currency, t.Amount)
	}
	if bad != nil {
		return "", fmt.Errorf("%s: %w", bad.message, ErrInvalid)
	}
	cs := &session{
		base: s.newBase(c, s.sessionPrefix()), amount: t.Amount, currency: currency, status: "expired",
		payment: "unpaid", reference: t.Reference, metadata: t.Metadata,
	}
	s.sessions.add(cs.id, cs)
	s.emit(c, "", "checkout.session.expired", s.showSession(cs), nil)
	return cs.id, nil
}

func (s *Server) sessionPrefix() string {
	if s.cfg.Live {
		return "cs_live_"
	}
	return "cs_test_"
}
