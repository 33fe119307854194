/** The one error that the control API turns into an answer: a stable code, an HTTP status and a sentence. */

export class SimulatorError extends Error {
  constructor(
    readonly code: string,
    readonly status: number,
    message: string
  ) {
    super(message);
    this.name = 'SimulatorError';
  }
}

export const badRequest = (message: string, code = 'BAD_REQUEST') => new SimulatorError(code, 400, message);
export const notFound = (message: string, code = 'NOT_FOUND') => new SimulatorError(code, 404, message);

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
