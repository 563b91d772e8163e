package payment

import "slices"

// rank of a stage inside its kind; time never decides, rank does.
type rank int8

// The ranks that the fold asks for by name.
const (
	noRank rank = -1

	attemptPending rank = 0
	attemptFailed  rank = 1

	lineAuthorized rank = 0
	lineCompleted  rank = 1
	lineExpired    rank = 2
	lineVoided     rank = 3

	itemPending   rank = 0
	itemSucceeded rank = 1
	itemRefused   rank = 2

	captureFailed rank = 3
	refundFailed  rank = 4

	disputeOpen rank = 0
	disputeWon  rank = 1
	disputeLost rank = 2

	reservationHeld rank = 0
)

// roundMax is the last round of a dispute, arbitration.
const roundMax = 4

// kinds in the order in which the fold needs them: what a later kind looks up
// is there already.
var kinds = [...]Kind{
	KindLink, KindAuthorization, KindAdjustment, KindAttempt, KindCapture, KindRefund,
	KindDispute, KindReversal, KindReservation,
}

// The positions of kinds in that order.
const (
	isLink int8 = iota
	isAuthorization
	isAdjustment
	isAttempt
	isCapture
	isRefund
	isDispute
	isReversal
	isReservation
	isUnknown int8 = -1
)

var stages = [...][]Stage{
	isLink:          nil,
	isAuthorization: {StageAuthorized, StageCompleted, StageExpired, StageVoided},
	isAdjustment:    nil,
	isAttempt:       {StagePending, StageFailed},
	isCapture:       {StagePending, StageSucceeded, StageRefused, StageFailed},
	isRefund:        {StagePending, StageSucceeded, StageRefused, StageCanceled, StageFailed},
	isDispute:       {StageOpen, StageWon, StageLost},
	isReversal:      nil,
	isReservation:   {StageReserved, StageRefused},
}

// Kinds lists all kinds of facts.
func Kinds() []Kind { return slices.Clone(kinds[:]) }

// Stages lists the stages of a kind, lowest rank first; links, adjustments and
// reversals have none. A dispute's stage is the verdict of a round, and rounds
// are compared before verdicts. StageClear is not listed: it is what a numbered
// read of a dispute's state proves, and ranks as won once a dispute was seen.
func Stages(k Kind) []Stage {
	i := kindIndex(k)
	if i == isUnknown {
		return nil
	}
	return slices.Clone(stages[i])
}

func kindIndex(k Kind) int8 {
	for i := range kinds {
		if kinds[i] == k {
			return int8(i)
		}
	}
	return isUnknown
}

// rankOf returns the rank of a fact's stage, or noRank for a stage that its
// kind does not have. Cumulative figures have no life: their rank is 0.
func rankOf(kind int8, f *Fact) rank {
	s := stages[kind]
	if s == nil || f.Form == FormTotal && kind != isAuthorization {
		return 0
	}
	if kind == isDispute && f.Stage == StageClear && f.Read != 0 {
		return disputeWon
	}
	for i := range s {
		if s[i] == f.Stage {
			return rank(i)
		}
	}
	return noRank
}
