package adapters

import (
	"time"

	"headway/core"
)

var errPending = core.Errorf(core.Internal, "not there yet")

func (Chat) Decode(*core.Job) (*core.Content, error)         { return nil, errPending }
func (Chat) Translator(*core.Job, time.Time) core.Translator { return nil }
func (Chat) encode(*core.Content, *core.Offer) ([]byte, []string, error) {
	return nil, nil, errPending
}
func (*chatReader) Events(*core.Frame) []core.Event          { return nil }
func (*chatReader) WholeEvents([]byte) ([]core.Event, error) { return nil, errPending }

func (Responses) Decode(*core.Job) (*core.Content, error)         { return nil, errPending }
func (Responses) Translator(*core.Job, time.Time) core.Translator { return nil }
func (Responses) encode(*core.Content, *core.Offer) ([]byte, []string, error) {
	return nil, nil, errPending
}
func (*responsesReader) Events(*core.Frame) []core.Event          { return nil }
func (*responsesReader) WholeEvents([]byte) ([]core.Event, error) { return nil, errPending }

func (Anthropic) Decode(*core.Job) (*core.Content, error)         { return nil, errPending }
func (Anthropic) Translator(*core.Job, time.Time) core.Translator { return nil }
func (Anthropic) encode(*core.Content, *core.Offer) ([]byte, []string, error) {
	return nil, nil, errPending
}
func (*messagesReader) Events(*core.Frame) []core.Event          { return nil }
func (*messagesReader) WholeEvents([]byte) ([]core.Event, error) { return nil, errPending }
